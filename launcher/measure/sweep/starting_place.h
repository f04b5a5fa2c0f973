// Where a command that starts ranks itself was started: on which machine, and not as a rank.
#pragma once

#include <string_view>

#include "launcher/measure/sweep/journal.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Its name, its processor, and the cores that this process may use.
Machine this_machine();

/// Fails with `kFailedPrecondition` in a rank of a launcher, where `command` would start launchers once a rank.
Result<void> check_not_launched(std::string_view command);

}  // namespace lockstep::launcher
