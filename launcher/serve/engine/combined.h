// What several engines that serve one model are together. Pure.
#pragma once

#include <span>

#include "launcher/serve/engine/engine.h"

namespace lockstep::serve {

/// Sums; the states of all ranks, one engine's after the other's; the age of the latest step.
EngineStatus combined(std::span<const EngineStatus> engines);

/// All slots and ranks, one engine's after the other's, with the engine's place in `engines` as the ranks' replica; the
/// steps by their age, oldest first.
EngineActivity combined(std::span<const EngineActivity> engines);

}  // namespace lockstep::serve
