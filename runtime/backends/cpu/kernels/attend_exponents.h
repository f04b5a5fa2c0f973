// The exponents of attention's weights over one tile of keys. Included by kernels of instruction sets with AVX-512.
//
//   weight = 2^(score · log2 e − origin)
//
// A row's origin is an integer, raised only when a score exceeds it by more than kSlack. The rescaling of earlier sums
// is then an exact power of two.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"

#if defined(__AVX512F__)

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

constexpr float kSlack = 8.0f;

/// Which of the sixteen keys from `at` on a row sees.
LOCKSTEP_LANES_INLINE __mmask16 seen_of(const AttendedTile& tile, int row, int at) {
  const auto first = [at](int bound) {
    return first_lanes(bound < at ? 0 : bound > at + kLanes ? kLanes : bound - at);
  };
  return static_cast<__mmask16>(first(tile.end[row]) & ~first(tile.begin[row]));
}

/// The exponents of a row's weights, sixteen keys starting at `at`: score · log2 e − origin, −∞ outside [begin, end).
template <bool kIsShaped, bool kIsWhole>
LOCKSTEP_LANES_INLINE Lanes exponent_of(const AttendedTile& tile, int row, int at, Lanes product, float origin) {
  Lanes exponent;
  if constexpr (kIsShaped) {
    Lanes score = product * splat(tile.scale);
    if (tile.soft_cap != 0.0f) score = splat(tile.soft_cap) * tanh(score / splat(tile.soft_cap));
    if (tile.slope != nullptr) {
      const Lanes distance = splat(tile.distance[row] + static_cast<float>(at)) + load(kLaneNumbers);
      score = score + splat(tile.slope[row]) * distance;
    }
    exponent = fma(score, splat(kLog2E), splat(-origin));
  } else {
    exponent = fma(product, splat(tile.scale * kLog2E), splat(-origin));
  }
  if constexpr (!kIsWhole) {
    exponent.v = _mm512_mask_blend_ps(seen_of(tile, row, at), _mm512_set1_ps(-__builtin_inff()), exponent.v);
  }
  return exponent;
}

/// The exponents of the keys of V strips from `first` on, from a row's products with them. Raises the row's origin, and
/// rescales its result, where they are too large. Returns the lane sums of the row's weights so far.
template <bool kIsShaped, bool kIsWhole, int V>
LOCKSTEP_LANES_INLINE Lanes exponents_of_row(const AttendedTile& tile, int row, int first, const Lanes (&products)[V],
                                             Lanes (&exponents)[V]) {
  float origin = tile.origin[row];
  Lanes most = splat(-__builtin_inff());
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    exponents[v] = exponent_of<kIsShaped, kIsWhole>(tile, row, first + v * kLanes, products[v], origin);
    most = larger(exponents[v], most);
  }
  Lanes sum = load(tile.sum + row * kLanes);
  if (_mm512_cmp_ps_mask(most.v, _mm512_set1_ps(kSlack), _CMP_GT_OQ) != 0) {
    // Computes the highest score again, without rounding errors from an old origin far away.
    most = splat(-__builtin_inff());
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      most = larger(exponent_of<kIsShaped, kIsWhole>(tile, row, first + v * kLanes, products[v], 0.0f), most);
    }
    const float raised = __builtin_ceilf(largest_of(most));
    const Lanes rescale = {_mm512_scalef_ps(splat(1.0f).v, splat(origin - raised).v)};
    sum = sum * rescale;
    float* result = tile.result + row * tile.columns;
    for (int64_t i = 0; i < tile.columns; i += kLanes) store(result + i, load(result + i) * rescale);
    tile.origin[row] = origin = raised;
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      exponents[v] = exponent_of<kIsShaped, kIsWhole>(tile, row, first + v * kLanes, products[v], origin);
    }
  }
  return sum;
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA

#endif
