// `lockstep plan`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "launcher/measure/plan/machine_options.h"
#include "launcher/process/model_arguments.h"
#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

struct PlanCommand {
  ModelArguments model;
  EngineOptions engine;          // its backend options name a device, whose rules count
  std::filesystem::path config;  // instead of a model directory
  int max_tp = 8;
  std::optional<int64_t> prompt_tokens;  // default: 512, or what a slot leaves
  int64_t new_tokens = 64;
  MachineOptions machine;
  std::optional<int> detail;  // the degree whose ranks are printed
  std::optional<std::filesystem::path> json;
};

/// Prints which tensor-parallel degrees work, what they need and how fast they should be; reads config.json only, and
/// the machine's limits where it is asked to. @blocking
Result<void> plan(const PlanCommand& command);

}  // namespace lockstep::launcher
