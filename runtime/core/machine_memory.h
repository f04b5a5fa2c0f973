// The memory of the machine.
#pragma once

#include "runtime/core/ids.h"

namespace lockstep {

/// Memory available without swapping (MemAvailable of /proc/meminfo, proc(5)); 0 when the system does not report it.
Bytes available_memory();

}  // namespace lockstep
