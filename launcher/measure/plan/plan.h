// The command `lockstep plan`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "launcher/process/model_arguments.h"
#include "lockstep/inspect.h"
#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

struct PlanCommand {
  ModelArguments model;
  EngineOptions engine;          // backend options that name a device, whose rules count
  std::filesystem::path config;  // instead of a model directory
  int max_tp = 8;
  std::optional<int64_t> prompt_tokens;  // default: 512, or the space in a slot
  int64_t new_tokens = 64;
  MachineOptions machine;
  std::optional<int> detail;  // the degree whose ranks to print
  std::optional<std::filesystem::path> json;
};

/// Prints which tensor-parallel degrees work, their memory and their predicted speed. Reads config.json, and with
/// --measure the machine's limits. @blocking
Result<void> plan(const PlanCommand& command);

}  // namespace lockstep::launcher
