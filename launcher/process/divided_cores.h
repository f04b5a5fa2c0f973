// The cores of this process, shared out between groups of ranks that run side by side.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// The hardware threads of each of `parts` parts: whole cores, neighbours together (topology::Machine::divide). Fails
/// with `kUnavailable` where the machine cannot be read.
Result<std::vector<std::vector<int>>> divide_own_cores(size_t parts);

}  // namespace lockstep::launcher
