// The largest magnitude of a group, from which its scale follows.
#pragma once

#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {

constexpr float kLeastMagnitude = 7.88860905e-31f;  // 2⁻¹⁰⁰: codes and scales below are 0

LOCKSTEP_DEVICE float not_a_number() { return float_of_bits(0x7fc00000u); }

/// The largest magnitude of elements [begin, end), on every lane; NaN if one of them is a NaN or infinite.
template <typename Rows>
LOCKSTEP_DEVICE float largest_magnitude(const typename Rows::Element* x, int begin, int end) {
  float most = 0.0f;
  for (int i = begin + thread_index() % kWarpLanes; i < end; i += kWarpLanes) {
    const float size = float_of_bits(bits_of(Rows::read(x[i])) & 0x7fffffffu);
    most = larger_or_nan(most, size < infinity() ? size : not_a_number());
  }
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) most = larger_or_nan(shuffle_xor(most, mask), most);
  return most;
}

}  // namespace lockstep::cuda
