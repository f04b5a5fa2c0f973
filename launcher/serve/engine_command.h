// The command `lockstep engine`: a model that other processes use over RPC.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/process/model_arguments.h"
#include "launcher/process/run_options.h"
#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

struct EngineCommand {
  ModelArguments model;
  RunOptions run;
  EngineOptions engine;
  std::optional<std::filesystem::path> socket;  // a Unix socket; otherwise TCP
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0: a free one
  std::optional<std::filesystem::path> secret_file;
  EndSignal end_signal = EndSignal::kAny;
};

/// The files of an observation hold one group of ranks: several replicas would write the same ones.
Result<void> check_files_of_replicas(const ObserveOptions& observe, int replicas);

/// Serves until a client asks for the end. Rank 0 prints the address once requests are served. @collective @blocking
Result<void> serve_engine(const EngineCommand& command);

}  // namespace lockstep::launcher
