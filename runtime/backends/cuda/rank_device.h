// What the parts of one rank share: its GPU, the order of its work, how long it may wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/backends/cuda/step_plan.h"
#include "runtime/core/clock.h"
#include "runtime/cuda/stream.h"
#include "runtime/device/device_exchange.h"
#include "runtime/device/hosts.h"

namespace lockstep::cuda {

class KernelSet;

/// Borrows everything; the backend owns it and outlives stores and executables.
struct RankDevice {
  const cu::Context* context = nullptr;
  std::shared_ptr<const void> context_owner;  // for memory that outlives the backend
  cu::Stream* stream = nullptr;
  const KernelSet* kernels = nullptr;
  const cu::BlasLibrary* blas = nullptr;  // where the options use it
  cu::WaitLimit limit;
  int most_shared_ranks = 1;                   // ranks that use the GPU together
  const device::Hosts* hosts = nullptr;        // of the group's ranks
  device::DeviceExchange* exchange = nullptr;  // with the rank's rail on the other hosts; null: it is on none
  int host_threads = 1;                        // that load weights
  bool early_launches = true;                  // a kernel loads weights before the one ahead has ended
  StepOptions options;
};

}  // namespace lockstep::cuda
