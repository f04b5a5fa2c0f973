// A plan as readable tables.
#pragma once

#include <string>

#include "engine/inspect/plan.h"

namespace lockstep::launcher {

/// The tables on stdout.
std::string to_text(const inspect::PlanReport& report);

/// Every rank of one degree: its part of the model and its memory.
std::string ranks_to_text(const inspect::PlanReport& report, const inspect::WorkingDegree& degree);

}  // namespace lockstep::launcher
