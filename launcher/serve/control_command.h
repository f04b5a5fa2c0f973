// `lockstep ctl`: asks a running server, which its endpoint file names, for its state, for another number of ranks, or
// for new ones.
#pragma once

#include <filesystem>
#include <optional>

#include "runtime/core/result.h"

namespace lockstep::launcher {

enum class ControlAction { kStatus, kDegree, kRestart };

struct ControlCommand {
  ControlAction action = ControlAction::kStatus;
  std::optional<int> ranks;             // of kDegree
  std::filesystem::path endpoint_file;  // that the server has written
  double deadline_s = 600.0;            // until the new ranks serve
};

/// Prints the state as JSON, or waits until the server has the new ranks and prints their number. Fails with
/// `kUnavailable` when no server answers, with `kFailedPrecondition` when it cannot change or the new ranks cannot
/// serve, with `kDeadlineExceeded` when they take too long, when the server goes on with the change, and with
/// `kUnsupported` for a server behind TLS. @blocking
Result<void> control(const ControlCommand& command);

}  // namespace lockstep::launcher
