// The program's log: stderr, so that stdout belongs to the generated text. Rank 0 speaks from info on, the others from
// warning on.
#pragma once

#include "runtime/core/log.h"

namespace lockstep::launcher {

/// Writes lines as "[r3] line". Thread-safe.
Log::Sink stderr_sink(int rank);

}  // namespace lockstep::launcher
