// The resident memory of this process, now and at its peak.
#pragma once

#include "runtime/core/ids.h"

namespace lockstep::process {

/// VmRSS of /proc/self/status, proc(5); zero if unknown.
Bytes resident_memory();

/// VmHWM of the same file.
Bytes peak_resident_memory();

}  // namespace lockstep::process
