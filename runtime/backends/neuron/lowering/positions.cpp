// Rotary positions, and writes to the caches.
#include <fmt/format.h>

#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/backends/neuron/lowering/cache.h"
#include "runtime/backends/neuron/lowering/step.h"
#include "runtime/core/cache_rows.h"

namespace lockstep::neuron {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Opcode;
using hlo::Value;

/// The operands of `rope`, in order; the last three are present together or not at all.
enum RopeOperand : size_t { kX, kPosition, kFrequencies, kLongFrequencies, kIsLong, kSlot };

/// f32 [T, F]: the rotation angle of each row's pairs per unit of position.
Value frequencies_of(const NodeView& node, const std::vector<int64_t>& dims) {
  Builder& b = node.builder();
  const Value usual = along(b, node.operand(kFrequencies), dims, 1);
  if (node.operands() <= kLongFrequencies) return usual;
  const Value is_long = rows_or_zeros(b, node.operand(kIsLong), node.operand(kSlot));
  const Value turns_long = b.broadcast(b.compare(Direction::kNe, is_long, 0.0), dims, {0});
  return b.select(turns_long, along(b, node.operand(kLongFrequencies), dims, 1), usual);
}

/// Both elements of each pair, [T, H, F] each, and the unrotated rest of the head.
struct Pairs {
  Value first, second;
};

Pairs pairs_of(Builder& b, Value x, int64_t pairs, bool are_neighbours) {
  const std::vector<int64_t> dims = b.dims_of(x);
  if (!are_neighbours) {
    return {b.slice_dimension(x, 2, {0, pairs}), b.slice_dimension(x, 2, {pairs, 2 * pairs})};
  }
  const Value split = b.reshape(b.slice_dimension(x, 2, {0, 2 * pairs}), {dims[0], dims[1], pairs, 2});
  const auto half = [&](int64_t i) {
    return b.reshape(b.slice_dimension(split, 3, {i, i + 1}), {dims[0], dims[1], pairs});
  };
  const Value first = half(0);
  return {first, half(1)};
}

/// The inverse of `pairs_of`: [T, H, 2 F].
Value joined(Builder& b, Pairs turned, bool are_neighbours) {
  if (!are_neighbours) return b.concatenate({turned.first, turned.second}, 2);
  std::vector<int64_t> dims = b.dims_of(turned.first);
  const int64_t pairs = dims[2];
  dims.push_back(1);
  const Value split = b.concatenate({b.reshape(turned.first, dims), b.reshape(turned.second, dims)}, 3);
  return b.reshape(split, {dims[0], dims[1], 2 * pairs});
}

}  // namespace

Result<void> lower_rope(const NodeView& node) {
  Builder& b = node.builder();
  const int64_t rows = node.dims(kX)[0], width = node.dims(kX)[1], pairs = node.dims(kFrequencies)[0];
  const graph::Graph& graph = node.step().graph();
  const int64_t head_dim = graph.value(node.node().operands[kX]).type.shape[1] / node.node().integer("heads");
  const Value x = b.reshape(to_f32(b, node.operand(kX)), {rows, width / head_dim, head_dim});
  const std::vector<int64_t> table{rows, pairs}, spread{rows, width / head_dim, pairs};
  const Value position = along(b, to_f32(b, node.operand(kPosition)), table, 0);
  const Value angle = b.multiply(position, frequencies_of(node, table));
  const double scale = node.node().number("scale");
  const auto factor = [&](Opcode opcode) {
    Value turned = b.unary(opcode, angle);
    if (scale != 1.0) turned = b.multiply(turned, scale);
    return b.broadcast(turned, spread, {0, 2});
  };
  const Value cosine = factor(Opcode::kCosine), sine = factor(Opcode::kSine);
  const bool are_neighbours = node.node().has("pairs", "neighbours");
  const Pairs pair = pairs_of(b, x, pairs, are_neighbours);
  const Value first = b.subtract(b.multiply(pair.first, cosine), b.multiply(pair.second, sine));
  const Value second = b.add(b.multiply(pair.second, cosine), b.multiply(pair.first, sine));
  Value result = joined(b, {first, second}, are_neighbours);
  if (2 * pairs < head_dim) result = b.concatenate({result, b.slice_dimension(x, 2, {2 * pairs, head_dim})}, 2);
  node.set_result(b.reshape(result, {rows, width}));
  return ok();
}

Result<void> lower_clamp_positions(const NodeView& node) {
  Builder& b = node.builder();
  const Value position = node.operand(0);
  node.set_result(b.minimum(position, b.fill_like(position, static_cast<double>(node.node().integer("most")))));
  return ok();
}

Result<void> lower_kv_append(const NodeView& node) {
  Builder& b = node.builder();
  if (const TensorType& type = node.step().graph().value(node.node().operands.at(1)).type; has_row_scales(type.dtype)) {
    return node.unsupported(
        fmt::format("found a cache {}, rows in 8 bits with their scales, expected elements of the "
                    "model's type; omit --kv-dtype",
                    to_string(type)));
  }
  const CacheShape cache = cache_of(node, 1);
  const Value rows = cache_rows(b, cache, node.operand(2), node.operand(3));
  node.set_state(1, b.put_rows(node.operand(1), rows, node.operand(0)));
  return ok();
}

}  // namespace lockstep::neuron
