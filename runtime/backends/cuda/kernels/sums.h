// Sums over a warp and a block, in an order that the number of threads alone fixes.
#pragma once

#include "runtime/backends/cuda/kernels/device.h"

namespace lockstep::cuda {

constexpr int kWarpLanes = 32;

LOCKSTEP_DEVICE int warp_count() { return thread_count() / kWarpLanes; }

/// The sum over the lanes of a warp, on every lane: a butterfly, so all lanes have the same bits.
LOCKSTEP_DEVICE float warp_sum(float value) {
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) value = plus(value, shuffle_xor(value, mask));
  return value;
}

/// The sum over the threads of a block of at most 1024, on every thread. `scratch` has 32 elements in shared memory,
/// which nobody uses before the next barrier.
LOCKSTEP_DEVICE float block_sum(float value, float (&scratch)[kWarpLanes]) {
  const int lane = thread_index() % kWarpLanes;
  const int warps = (thread_count() + kWarpLanes - 1) / kWarpLanes;
  value = warp_sum(value);
  if (lane == 0) scratch[thread_index() / kWarpLanes] = value;
  sync_block();
  return warp_sum(lane < warps ? scratch[lane] : 0.0f);
}

}  // namespace lockstep::cuda
