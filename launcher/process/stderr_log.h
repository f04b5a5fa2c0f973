// The program's log on stderr; stdout is reserved for generated text. Rank 0 logs from info on, the others from warning
// on.
#pragma once

#include "runtime/core/log.h"

namespace lockstep::launcher {

/// Writes lines as "[r3] line". Thread-safe.
Log::Sink stderr_sink(int rank);

}  // namespace lockstep::launcher
