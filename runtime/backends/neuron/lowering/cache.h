// The layout of a KV cache on the device.
//
// A cache is one matrix with rows by position and slot; a row holds all heads of the rank:
//
//   row  p · slots + s      position p of slot s       a length bucket is therefore a prefix of the cache
//   row  C · slots          scratch: receives padding rows, never read
//
// With a window, the rows after the pinned ones form a ring.
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

/// The shape of operand `cache` of `node` (a kv_append or an attention).
CacheShape cache_of(const NodeView& node, size_t cache);

/// s32 [T]: the cache rows for the tokens of `slot` and `position`; the scratch row for padding.
hlo::Value cache_rows(hlo::Builder& b, const CacheShape& cache, hlo::Value slot, hlo::Value position);

/// s32 [groups, rows]: the positions held by the first `rows` rows of a slot's cache when its newest position is
/// `newest` [groups]; negative for empty rows.
hlo::Value positions_held(hlo::Builder& b, const CacheShape& cache, hlo::Value newest, int64_t rows);

}  // namespace lockstep::neuron
