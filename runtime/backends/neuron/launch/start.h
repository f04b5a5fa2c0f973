// The start of a rank's backend: its core, its environment, its runtime.
#pragma once

#include <memory>

#include "runtime/device/backend_driver.h"

namespace lockstep::neuron {

/// Looks at what can be known before weights are read: one process a rank, instances, degree; and gives each rank its
/// core. Fails alike on every rank, as `check_instances` and `assign_cores`. @collective @blocking
Result<device::DevicePlan> place_ranks(const device::RankSite& site, const device::OptionValues& values);

/// Opens the compile cache, chooses the place where the ranks' runtimes meet, sets the environment, and starts the
/// runtime. Fails alike on every rank; with `kFailedPrecondition` where variables must be set and the site cannot.
/// @collective @blocking
Result<std::unique_ptr<device::Backend>> start_backend(const device::RankSite& site, const device::DevicePlan& plan,
                                                       const device::OptionValues& values);

}  // namespace lockstep::neuron
