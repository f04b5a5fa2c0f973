// Small expressions shared by several operations.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/backends/neuron/hlo/builder.h"
#include "runtime/backends/neuron/lowering/step.h"

namespace lockstep::neuron {

inline hlo::Value to_f32(hlo::Builder& b, hlo::Value x) { return b.convert(x, hlo::Element::kF32); }

/// Broadcasts `vector` [n] along dimension `axis` to `dims`.
inline hlo::Value along(hlo::Builder& b, hlo::Value vector, const std::vector<int64_t>& dims, int64_t axis) {
  return b.broadcast(vector, dims, {axis});
}

/// Broadcasts `value` [1] to `dims`.
hlo::Value everywhere(hlo::Builder& b, hlo::Value value, const std::vector<int64_t>& dims);

/// Column `index` of a matrix [R, N], as [R].
hlo::Value column_of(hlo::Builder& b, hlo::Value matrix, int64_t index);

/// [R, …]: the rows of `value` where `rows` (pred [R]) is true, zeros elsewhere.
hlo::Value keep_rows(hlo::Builder& b, hlo::Value rows, hlo::Value value);

/// [R, …]: row `rows[r]` of `table`, zeros for rows out of range. The device never gets an index out of range.
hlo::Value rows_or_zeros(hlo::Builder& b, hlo::Value table, hlo::Value rows);

/// x [R, N] ─► [R, n]: this rank's columns, where n is the largest number of any rank; the rest is padded with zeros.
hlo::Value columns_of_each_rank(const NodeView& node, hlo::Value x, const std::vector<Range>& ranges);

/// The number of true elements of each row of a pred [R, N], as s32 [R].
hlo::Value count_rows(hlo::Builder& b, hlo::Value condition);

/// x mod n for s32 x ≥ 0 (any x where n is a power of two).
hlo::Value modulo(hlo::Builder& b, hlo::Value x, int64_t n);

/// The activation `name` of an f32 value: silu, sigmoid, gelu, gelu_tanh, relu or squared_relu.
hlo::Value activate(hlo::Builder& b, std::string_view name, hlo::Value x);

/// x · wᵀ over the last dimensions, in f32.
hlo::Value product(hlo::Builder& b, hlo::Value x, hlo::Value w);

}  // namespace lockstep::neuron
