// The limits of this machine, measured.
#pragma once

#include <optional>

#include "runtime/core/clock.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/probe/probe.h"
#include "shards/cost/machine.h"

namespace lockstep::inspect {

/// The best kernels of this machine with `threads` threads. Fails as `probe::Prober`, and with `kUnsupported` in a
/// build without measurements. @blocking
Result<cost::Rates> measure(int threads, probe::Precision precision, std::optional<Bytes> per_thread,
                            const Clock& clock);

}  // namespace lockstep::inspect
