// The report of `generate`: JSON for --json, one line for stderr.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lockstep/engine.h"

namespace lockstep::launcher {

/// The number of tokens of all answers.
int64_t tokens_of(std::span<const Answer> answers);

/// Seconds from the submission to the first token of the first answer; empty if there was none.
std::optional<double> ttft_s(std::span<const Answer> answers);

/// Mean seconds between the tokens of all answers after their first; empty if no answer has two.
std::optional<double> tpot_s(std::span<const Answer> answers);

/// The JSON document of `generate --json`.
std::string to_json(std::span<const Answer> answers, const EngineFacts& facts, const EngineCounters& counters);

/// One readable line: tokens, times, drafts and memory.
std::string summary(std::span<const Answer> answers, const EngineFacts& facts, const EngineCounters& counters);

}  // namespace lockstep::launcher
