// The command `lockstep explain`.
#pragma once

#include <string>

#include "launcher/process/model_arguments.h"
#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

struct ExplainCommand {
  ModelArguments model;
  EngineOptions engine;
  int rank = 0;
  std::string phase = "both";    // prefill, decode or both
  std::string passes = "after";  // before, after or each
  std::string show = "all";      // all, graph or summary
  std::string backend;           // the backend to show instead of the graphs; empty: none
};

/// Prints partition, graphs, memory and cost of a model; reads config.json only.
Result<void> explain(const ExplainCommand& command);

}  // namespace lockstep::launcher
