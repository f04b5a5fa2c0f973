// What other work took from the ranks' processes.
#pragma once

#include <string>
#include <vector>

#include "engine/group/member.h"
#include "lockstep/engine.h"
#include "runtime/process/core_watch.h"

namespace lockstep::observe {

/// What every rank lost since its `watch` began, by rank, on every rank. @collective @blocking
Result<std::vector<RankCores>> gather_cores(group::Member& member, const process::CoreWatch& watch);

}  // namespace lockstep::observe
