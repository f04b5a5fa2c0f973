// The command `lockstep score`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/model_arguments.h"
#include "launcher/process/run_options.h"
#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

struct ScoreCommand {
  ModelArguments model;
  RunOptions run;
  EngineOptions engine;
  std::vector<std::string> texts;
  std::optional<std::filesystem::path> texts_file;
  std::optional<std::filesystem::path> ids_file;
  int64_t top = 0;  // likeliest tokens to name at each position
  std::optional<std::filesystem::path> json;
};

/// Prints each text's log-probability, or writes those of each of its tokens.
Result<void> score(const ScoreCommand& command);

}  // namespace lockstep::launcher
