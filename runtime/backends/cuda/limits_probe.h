// Probes of a GPU's limits: its memory's bandwidth, and the rate of its multiply-adds.
#pragma once

#include <memory>

#include "runtime/backends/cuda/rank_device.h"
#include "runtime/device/limits_probe.h"

namespace lockstep::cuda {

/// Takes memory of its own: 4 GiB, or a quarter of what is free. Each pass checks the sum of what it read or
/// multiplied, so that a kernel which leaves something out is an error. Borrows the device. Fails with
/// `kResourceExhausted` when the free memory is no more than the GPU's cache holds. @blocking
Result<std::unique_ptr<device::LimitsProbe>> make_limits_probe(const RankDevice& device,
                                                               const device::ProbedWork& work);

}  // namespace lockstep::cuda
