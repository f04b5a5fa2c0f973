// Where the positions of a slot lie in a KV cache on the device.
//
// A cache is one matrix, rows by position and slot, a row holding all heads of the rank:
//
//   row  p · slots + s      position p of slot s       so a length bucket is a prefix of the cache
//   row  C · slots          scratch: where padding rows are written, never read
//
// With a window, positions beyond the pinned ones go round in a ring of the rows behind them.
#pragma once

#include "runtime/backends/neuron/lowering/step.h"

namespace lockstep::neuron {

struct CacheShape {
  int64_t slots = 0;
  int64_t heads = 0;  // of the largest rank
  int64_t capacity = 0;
  int64_t head_dim = 0;
  bool is_ring = false;
  int64_t pinned = 0;

  int64_t ring() const { return capacity - pinned; }
  int64_t rows() const { return capacity * slots + 1; }
};

/// The cache that operand `cache` of `node` (a kv_append or an attention) is.
CacheShape cache_of(const NodeView& node, size_t cache);

/// s32 [T]: the rows where the tokens of `slot` and `position` belong; the scratch row for padding.
hlo::Value cache_rows(hlo::Builder& b, const CacheShape& cache, hlo::Value slot, hlo::Value position);

/// s32 [groups, rows]: the positions that the first `rows` rows of a slot's cache hold when its newest position is
/// `newest` [groups]; negative for rows that hold none.
hlo::Value positions_held(hlo::Builder& b, const CacheShape& cache, hlo::Value newest, int64_t rows);

}  // namespace lockstep::neuron
