// Which GPU each rank takes.
#pragma once

#include <span>

#include "runtime/device/backend_driver.h"

namespace lockstep::cuda {

/// Ranks of a host take its GPUs in order. `gpus` is the number that each rank sees; 0: it has no driver, and says so
/// when it starts. Fails with `kInvalidArgument` where a host has more ranks than GPUs, unless they are to share. Pure.
Result<device::DevicePlan> place_on_gpus(std::span<const device::RankPlace> places, std::span<const int> gpus,
                                         bool shares);

/// The ranks of `rank`'s host that use the same GPU, with itself.
int ranks_of_device(std::span<const device::RankPlace> places, const device::DevicePlan& plan, int rank);

}  // namespace lockstep::cuda
