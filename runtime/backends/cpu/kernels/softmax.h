// The softmax of attention, one tile of keys at a time. Included by the isa_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/rowwise.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

static void softmax_row(float* scores, const SoftmaxTile& tile, int row) {
  const Lanes least = splat(-__builtin_inff());
  Lanes scaled[kPanelStrips];
  Lanes most = least;
#pragma GCC unroll 4
  for (int v = 0; v < kPanelStrips; ++v) {
    const int valid = tile.valid - v * kLanes;
    scaled[v] = load(scores + v * kLanes) * splat(tile.scale);
    if (valid < kLanes) scaled[v] = first_of(scaled[v], valid < 0 ? 0 : valid, least);
    most = larger(scaled[v], most);
  }
  const float old_maximum = tile.maximum[row];
  const float tile_maximum = largest_of(most);
  const float maximum = tile_maximum > old_maximum ? tile_maximum : old_maximum;
  // With nothing but −inf so far every weight is 0, not the NaN of −inf − (−inf).
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
    const Lanes weight = exp(scaled[v] - origin);
    store(scores + v * kLanes, weight);
    sum = sum + weight;
  }
  store(tile.sum + row * kLanes, sum);
}

static void softmax_tile(const SoftmaxTile& tile) {
  for (int row = 0; row < tile.rows; ++row) softmax_row(tile.scores + row * kPanel, tile, row);
}

static void finish_attention(const float* result, const float* sum, Row dst, int64_t count) {
  const Lanes total = splat(sum_of(load(sum)));
  with_type(dst.dtype, [&](auto d) {
    for (int64_t i = 0; i < count; i += kLanes) {
      write<typename decltype(d)::Type>(dst.data, i, load(result + i) / total, count - i);
    }
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
