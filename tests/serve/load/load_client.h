// Sends the requests of a plan on one thread and records when their answers come.
#pragma once

#include <vector>

#include "tests/serve/load/load_plan.h"
#include "tests/serve/load/load_report.h"

namespace lockstep::load {

/// Until every conversation has ended, or the plan's deadline; a turn that is open then has an error, and the rest of
/// its conversation none. A conversation ends with its first error.
/// @blocking
std::vector<TurnRecord> run_load(const LoadPlan& plan);

}  // namespace lockstep::load
