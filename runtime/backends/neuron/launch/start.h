// The start of a rank's backend: its core, its environment, its runtime.
#pragma once

#include <memory>

#include "runtime/device/backend_driver.h"

namespace lockstep::neuron {

/// Checks everything known before weights are read (one process per rank, instances, degree), and assigns each rank its
/// core. Every rank gets the same error, from `check_instances` or `assign_cores`. @collective @blocking
Result<device::DevicePlan> place_ranks(const device::RankSite& site, const device::OptionValues& values);

/// Opens the compile cache, chooses the meeting point of the ranks' runtimes, sets the environment, and starts the
/// runtime. Every rank gets the same error; `kFailedPrecondition` if variables must be set and the site cannot.
/// @collective @blocking
Result<std::unique_ptr<device::Backend>> start_backend(const device::RankSite& site, const device::DevicePlan& plan,
                                                       const device::OptionValues& values);

}  // namespace lockstep::neuron
