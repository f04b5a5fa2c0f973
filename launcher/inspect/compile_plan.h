// The closed set of graphs of a run, for `compile` and `export`.
#pragma once

#include <string>
#include <vector>

#include "launcher/inspect/compile.h"
#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "runtime/graph/graph.h"

namespace lockstep::launcher {

/// The graphs that a run compiles at start.
struct CompilePlan {
  std::vector<std::vector<graph::Graph>> steps;  // each with the graphs of all ranks
  std::string warning;                           // for the user; empty: none

  /// Borrows the graphs.
  std::vector<device::StepGraph> graphs() const;
};

/// The plan of a run with these options on `backend`. Reads config.json only. Fails with `kInvalidArgument` for sizes
/// that the model cannot serve, and as partitioning and building fail.
Result<CompilePlan> plan_compilation(const CompileCommand& command, const device::Capabilities& backend);

}  // namespace lockstep::launcher
