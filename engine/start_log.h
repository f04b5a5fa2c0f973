// What rank 0 logs of a start.
#pragma once

#include <string>

#include "engine/group/communicators.h"
#include "engine/group/member.h"
#include "engine/model/plan.h"

namespace lockstep {

/// Where ranks are, which rank owns what and how messages go; on rank 0.
void log_plan(const group::Member& member, const model::Plan& plan, const group::ChosenCommunicator& chosen);

/// "ready: plan 0.01 s, load 0.50 s".
std::string phases_line(const group::RunPhases& phases);

}  // namespace lockstep
