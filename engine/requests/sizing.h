// How long answers may become and what slots they need: pure functions of prompts, options and the model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/options.h"
#include "lockstep/request.h"

namespace lockstep::requests {

/// Tokens of a prompt or of its negative one, which runs beside it: the longer.
int64_t longer_length(const Prompt& prompt);

/// Slots that one request with `config` occupies.
int64_t rows_of(const GenerationConfig& config);

/// Tokens that a slot must hold for a prompt: the last new token is never cached. `most` is what the model can.
int64_t wanted_capacity(const GenerationConfig& config, const Prompt& prompt, int64_t most);

/// Whether a length that a configuration asks for counts as it is, or only as far as the slot reaches: what
/// generation_config.json says was written without a slot in mind.
enum class LengthFrom { kCaller, kFile };

/// The new tokens of a prompt in a slot of `capacity` tokens. Fails with `kInvalidArgument` when they do not fit.
Result<int32_t> budget_of(const GenerationConfig& config, LengthFrom from, const Prompt& prompt, int64_t capacity);

/// Refuses a prompt, and its negative one, that a model cannot take: without tokens, with an id outside `vocabulary`,
/// or with more tokens than `capacity`.
Result<void> check_prompt(const Prompt& prompt, int64_t vocabulary, int64_t capacity);

/// Refuses a prompt with masked ids inside where stripping them is not what transformers does: a window, and the length
/// from which longrope turns by other factors, count masked ids there. Fails with `kUnsupported` where the prompt with
/// its `budget` new tokens outgrows one.
Result<void> check_masked(const Prompt& prompt, int32_t budget, const ModelSpec& spec);

/// Options that cannot be together.
Error contradiction(const std::string& found, std::string_view expected);

/// The drafts that `config` asks for, with the draft model of `options` or by lookup; none where it asks for none.
/// Fails with `kInvalidArgument` beside options that the host has to apply.
Result<Drafting> drafting_of(const GenerationConfig& config, const Drafting& options);

}  // namespace lockstep::requests
