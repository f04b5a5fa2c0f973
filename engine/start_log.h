// Log lines of rank 0 about a start.
#pragma once

#include <string>

#include "engine/group/communicators.h"
#include "engine/group/member.h"
#include "engine/model/plan.h"

namespace lockstep {

/// Logs on rank 0 where ranks run, how they divide the model and how they exchange messages.
void log_plan(const group::Member& member, const model::Plan& plan, const group::ChosenCommunicator& chosen);

/// "ready: plan 0.01 s, load 0.50 s".
std::string phases_line(const group::RunPhases& phases);

}  // namespace lockstep
