// What the parts of one rank share: its GPU, the order of its work, how long it may wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/core/clock.h"
#include "runtime/cuda/stream.h"

namespace lockstep::cuda {

class KernelSet;

/// Borrows everything; the backend owns it and outlives stores and executables.
struct RankDevice {
  const cu::Context* context = nullptr;
  std::shared_ptr<const void> context_owner;  // for memory that outlives the backend
  cu::Stream* stream = nullptr;
  const KernelSet* kernels = nullptr;
  cu::WaitLimit limit;
  int most_shared_ranks = 1;  // ranks that use the GPU together
  int node = 0;               // number of the rank's host
  bool early_launches = true;
};

}  // namespace lockstep::cuda
