// The command `lockstep doctor`.
#pragma once

#include <filesystem>
#include <optional>

#include "launcher/process/run_options.h"
#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

enum class Warnings { kAllow, kFail };

struct DoctorCommand {
  RunOptions run;            // how ranks are started; the rest is not used
  EngineOptions engine;      // the threads of a rank; the rest is not used
  std::optional<int> ranks;  // --tp
  double stage_deadline_s = 10.0;
  bool quick = false;  // without the machine's limits
  Warnings warnings = Warnings::kAllow;
  std::optional<Bytes> probe_bytes;  // of each thread's buffer; default: larger than any cache
  std::optional<std::filesystem::path> model;
  std::optional<std::filesystem::path> json;
};

/// Checks the launch and the machine without a model and reports the findings; returns the exit code.
/// @collective @blocking
Result<int> doctor(const DoctorCommand& command);

}  // namespace lockstep::launcher
