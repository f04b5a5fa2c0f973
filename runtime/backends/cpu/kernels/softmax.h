// The softmax of attention, one tile of keys at a time. Included by the isa_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/rowwise.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// Sixteen scores of a row starting at column `at`: the input of the softmax.
template <bool kIsShaped>
LOCKSTEP_LANES_INLINE Lanes score_of(const SoftmaxTile& tile, int row, int at) {
  Lanes score = load(tile.scores + row * kPanel + at) * splat(tile.scale);
  if constexpr (kIsShaped) {
    if (tile.soft_cap != 0.0f) score = splat(tile.soft_cap) * tanh(score / splat(tile.soft_cap));
    if (tile.slope != nullptr) {
      const Lanes distance = splat(tile.distance[row] + static_cast<float>(at)) + load(kLaneNumbers);
      score = score + splat(tile.slope[row]) * distance;
    }
  }
  const Lanes least = splat(-__builtin_inff());
  const int begin = tile.begin - at, end = tile.end - at;
  if (end < kLanes) score = first_of(score, end < 0 ? 0 : end, least);
  if (begin > 0) score = first_of(least, begin > kLanes ? kLanes : begin, score);
  return score;
}

template <bool kIsShaped>
static void softmax_row(const SoftmaxTile& tile, int row) {
  Lanes scores[kPanelStrips];
  Lanes most = splat(-__builtin_inff());
#pragma GCC unroll 4
  for (int v = 0; v < kPanelStrips; ++v) {
    scores[v] = score_of<kIsShaped>(tile, row, v * kLanes);
    most = larger(scores[v], most);
  }
  const float old_maximum = tile.maximum[row];
  const float tile_maximum = largest_of(most);
  const float maximum = tile_maximum > old_maximum ? tile_maximum : old_maximum;
  // If all scores so far are −inf, every weight is 0 instead of the NaN of −inf − (−inf).
  const Lanes origin = splat(maximum == -__builtin_inff() ? 0.0f : maximum);
  tile.maximum[row] = maximum;

  Lanes sum = load(tile.sum + row * kLanes);
  if (maximum != old_maximum) {
    const Lanes rescale = exp(splat(old_maximum) - origin);
    sum = sum * rescale;
    float* result = tile.result + row * tile.result_columns;
    for (int64_t i = 0; i < tile.result_columns; i += kLanes) store(result + i, load(result + i) * rescale);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kPanelStrips; ++v) {
    const Lanes weight = exp(scores[v] - origin);
    store(tile.scores + row * kPanel + v * kLanes, weight);
    sum = sum + weight;
  }
  store(tile.sum + row * kLanes, sum);
}

static void softmax_tile(const SoftmaxTile& tile) {
  const bool is_shaped = tile.soft_cap != 0.0f || tile.slope != nullptr;
  for (int row = 0; row < tile.rows; ++row) {
    if (is_shaped) {
      softmax_row<true>(tile, row);
    } else {
      softmax_row<false>(tile, row);
    }
  }
}

static void finish_attention(const float* result, const float* sum, Row dst, int64_t count) {
  const Lanes total = splat(sum_of(load(sum)));
  // A sum that underflowed to −0 becomes 0, as it does next to rows with more keys, where weights of 0 are added.
  with_type(dst.dtype, [&](auto d) {
    for (int64_t i = 0; i < count; i += kLanes) {
      write<typename decltype(d)::Type>(dst.data, i, (load(result + i) + zero()) / total, count - i);
    }
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
