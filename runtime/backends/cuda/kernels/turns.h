// Rotation of a head's pairs: the formula of every kernel that turns heads.
#pragma once

#include "runtime/backends/cuda/kernels/device.h"
#include "runtime/backends/cuda/kernels/parameters.h"

namespace lockstep::cuda {

/// Element `i` of a head of `row` after its turn, not yet rounded. `read(i)` is an element of the head.
template <typename Read>
LOCKSTEP_DEVICE float turned(const Turn& turn, int64_t row, int i, Read read) {
  if (i >= 2 * turn.half) return read(i);
  const float* cosines = turn.cosines + row * turn.half;
  const float* sines = turn.sines + row * turn.half;
  const int distance = turn.neighbours != 0 ? 1 : turn.half;  // within a pair
  const bool is_first = i / distance % 2 == 0;
  const int first = is_first ? i : i - distance;
  const int pair = turn.neighbours != 0 ? first / 2 : first;
  if (is_first) return plus(times(read(i), cosines[pair]), -times(read(i + distance), sines[pair]));
  return plus(times(read(i), cosines[pair]), times(read(first), sines[pair]));
}

}  // namespace lockstep::cuda
