// Machine and launch checks for commands like `sweep`.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/measure/sweep/journal.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// The machine's name, its processor, and the cores that this process may use.
Machine this_machine();

/// The hardware threads that this process may use, by core, in the machine's order.
std::vector<std::vector<int>> own_cores();

/// Fails with `kFailedPrecondition` in a rank of a launcher, where every rank would start `command`'s launchers.
Result<void> check_not_launched(std::string_view command);

}  // namespace lockstep::launcher
