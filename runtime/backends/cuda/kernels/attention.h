// The formulas of attention that all of its kernels share: what a row sees, a score, the fold of a tile's softmax.
#pragma once

#include "runtime/backends/cuda/kernels/cache_tiles.h"
#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {

/// A row's place in its sequence.
struct SeenBy {
  int position;
  int first;  // the first position that the window reaches
};

LOCKSTEP_DEVICE SeenBy seen_by(const AttendParameters& p, int row) {
  const int position = p.position[row];
  if (p.is_chunked != 0) return {position, position / p.window * p.window};
  return {position, p.window > 0 && position >= p.window ? position - p.window + 1 : 0};
}

LOCKSTEP_DEVICE bool is_seen(const AttendParameters& p, const SeenBy& row, int position) {
  return position <= row.position && (position >= row.first || position < p.pinned);
}

/// Whether all tokens of a tile are seen.
LOCKSTEP_DEVICE bool is_whole(const AttendParameters& p, const SeenBy& row, int tile) {
  const int first = tile * kTileTokens;
  return is_seen(p, row, first) && is_seen(p, row, first + kTileTokens - 1) && p.pinned == 0;
}

/// The first element of a tile's rows of one cache head.
LOCKSTEP_DEVICE int64_t tile_at(const AttendParameters& p, int slot, int tile, int cache_head) {
  return tile_place(p.tiles, slot, tile) + cache_head * head_elements(p.tiles, p.head_dim);
}

/// The largest value of a warp, on every lane.
LOCKSTEP_DEVICE float warp_maximum(float value) {
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) value = larger(value, shuffle_xor(value, mask));
  return value;
}

template <typename Rows>
LOCKSTEP_DEVICE float number_of_head(const AttendParameters& p, const void* numbers, int head) {
  if (p.is_float_per_head != 0) return static_cast<const float*>(numbers)[head];
  return Rows::read(static_cast<const typename Rows::Element*>(numbers)[head]);
}

LOCKSTEP_DEVICE float capped(const AttendParameters& p, float score) {
  return times(p.soft_cap, tanh_of(divide(score, p.soft_cap)));
}

/// The score of a key whose product with the query is `product`.
template <typename Rows>
LOCKSTEP_DEVICE float score_of(const AttendParameters& p, const SeenBy& row, int head, int position, float product) {
  float score = times(product, p.scale);
  if (p.soft_cap != 0.0f) score = capped(p, score);
  if (p.slopes == nullptr) return score;
  return plus(score, times(number_of_head<Rows>(p, p.slopes, head), static_cast<float>(position - row.position)));
}

/// exp(x − origin) is relative to this; 0 where nothing has a finite score.
LOCKSTEP_DEVICE float origin_of(float maximum) { return maximum == -infinity() ? 0.0f : maximum; }

/// The largest score before any tile, and the sum: a sink is a score whose value is 0.
template <typename Rows>
LOCKSTEP_DEVICE float first_maximum(const AttendParameters& p, int head) {
  return p.sinks == nullptr ? -infinity() : number_of_head<Rows>(p, p.sinks, head);
}
LOCKSTEP_DEVICE float first_sum(const AttendParameters& p) { return p.sinks == nullptr ? 0.0f : 1.0f; }

/// What the sums of the tiles so far and of the next tile are multiplied with.
struct FoldFactors {
  float of_all;
  float of_tile;
};
LOCKSTEP_DEVICE FoldFactors fold_factors(float maximum_before, float maximum_of_tile) {
  const float origin = origin_of(larger(maximum_before, maximum_of_tile));
  return {exp_of(plus(maximum_before, -origin)), exp_of(plus(maximum_of_tile, -origin))};
}
LOCKSTEP_DEVICE float folded_sum(float all, float of_tile, const FoldFactors& factors) {
  return madd(all, factors.of_all, times(of_tile, factors.of_tile));
}
LOCKSTEP_DEVICE float folded_value(float all, float of_tile, const FoldFactors& factors) {
  return madd(of_tile, factors.of_tile, times(all, factors.of_all));
}

}  // namespace lockstep::cuda
