// This process as one of several ranks of mpirun or srun.
#pragma once

#include <optional>
#include <string>

#include "runtime/core/result.h"

namespace lockstep::launcher {

struct LaunchedRank {
  int rank = 0;
  std::string launcher;  // "Open MPI's mpirun"
};

/// Empty for a process that no launcher has started, and for one that is alone. Reads the environment only. Fails with
/// `kFailedPrecondition` for launchers' variables that cannot be parsed.
Result<std::optional<LaunchedRank>> launched_rank();

}  // namespace lockstep::launcher
