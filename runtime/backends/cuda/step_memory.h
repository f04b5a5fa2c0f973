// Device memory of a rank's steps, counted from their plans: what the store and the executables will take.
#pragma once

#include <span>

#include "runtime/backends/cuda/step_plan.h"
#include "runtime/cuda/driver.h"
#include "runtime/device/device_rules.h"

namespace lockstep::cuda {

/// Keys and values of every slot at full capacity. The states of the slots are on the host. `hosts` are those of the
/// ranks; empty: one. Pure.
Result<device::DeviceMemory> memory_of_steps(std::span<const device::StepGraph> steps, const StepOptions& options = {},
                                             const device::Hosts& hosts = {});

/// Fails with `kResourceExhausted` naming what to lower. `device` is "GPU 0 (NVIDIA H100 80GB HBM3)". Pure.
Result<void> check_memory(const device::DeviceMemory& needed, Bytes available, std::string_view device, int rank);

}  // namespace lockstep::cuda
