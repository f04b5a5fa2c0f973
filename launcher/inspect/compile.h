// The commands `lockstep compile` and `lockstep export`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/process/model_arguments.h"
#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Compiles every graph of a backend ahead of time; needs no devices, weights or other processes.
struct CompileCommand {
  ModelArguments model;
  EngineOptions engine;                          // its backend compiles ahead of time
  std::filesystem::path config;                  // instead of a model directory
  bool logits = false;                           // graphs that return logits
  int jobs = 1;                                  // compilations at once
  std::optional<std::filesystem::path> modules;  // folder where each graph's HLO module is written
  std::optional<std::filesystem::path> json;
};

/// Compiles, then copies the results to a folder for --artifacts.
struct ExportCommand {
  CompileCommand compile;
  std::filesystem::path to;
};

/// Compiles the graphs of a model into the backend's cache; reads config.json only. @blocking
Result<void> compile(const CompileCommand& command);

/// As `compile`; then copies the compiled graphs to a folder. @blocking
Result<void> export_artifacts(const ExportCommand& command);

}  // namespace lockstep::launcher
