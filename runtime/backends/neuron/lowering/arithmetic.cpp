#include "runtime/backends/neuron/lowering/arithmetic.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "runtime/core/check.h"

namespace lockstep::neuron {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Opcode;
using hlo::Value;

/// Error below 1.5e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26. HLO here has no erf.
Value error_function(Builder& b, Value x) {
  const Value size = b.unary(Opcode::kAbs, x);
  const Value t = b.divide(b.fill_like(x, 1.0), b.add(b.multiply(size, 0.3275911), 1.0));
  Value sum = b.fill_like(x, 1.061405429);
  for (const double coefficient : {-1.453152027, 1.421413741, -0.284496736, 0.254829592}) {
    sum = b.add(b.multiply(sum, t), coefficient);
  }
  const Value decay = b.unary(Opcode::kExponential, b.multiply(b.multiply(size, size), -1.0));
  const Value positive = b.subtract(b.fill_like(x, 1.0), b.multiply(b.multiply(sum, t), decay));
  return b.select(b.compare(Direction::kLt, x, 0.0), b.multiply(positive, -1.0), positive);
}

}  // namespace

Value everywhere(Builder& b, Value value, const std::vector<int64_t>& dims) {
  return b.broadcast(b.reshape(value, {}), dims, {});
}

Value column_of(Builder& b, Value matrix, int64_t index) {
  return b.reshape(b.slice_dimension(matrix, 1, {index, index + 1}), {b.dims_of(matrix)[0]});
}

Value keep_rows(Builder& b, Value rows, Value value) {
  return b.select(b.broadcast(rows, b.dims_of(value), {0}), value, b.fill_like(value, 0.0));
}

Value rows_or_zeros(Builder& b, Value table, Value rows) {
  const int64_t last = b.dims_of(table)[0] - 1;
  const Value inside =
      b.logical_and(b.compare(Direction::kGe, rows, 0.0), b.compare(Direction::kLe, rows, static_cast<double>(last)));
  const Value safe = b.select(inside, rows, b.fill_like(rows, 0.0));
  return keep_rows(b, inside, b.take_rows(table, safe));
}

Value columns_of_each_rank(const NodeView& node, Value x, const std::vector<Range>& ranges) {
  Builder& b = node.builder();
  const auto is_first = [&](const Range& range) { return range == ranges.front(); };
  if (std::ranges::all_of(ranges, is_first)) return b.slice_dimension(x, 1, ranges.front());
  std::vector<std::vector<int32_t>> begins, counts;
  int64_t width = 0, room = 0;
  for (const Range& range : ranges) {
    begins.push_back({static_cast<int32_t>(range.begin)});
    counts.push_back({static_cast<int32_t>(range.size())});
    width = std::max(width, range.size());
  }
  const std::vector<int64_t> dims = b.dims_of(x);
  for (const Range& range : ranges) room = std::max(room, range.begin + width - dims[1]);
  // A slice must stay inside its operand, because the device would move it back inside.
  if (room > 0) x = b.concatenate({x, b.fill_like(b.slice_dimension(x, 1, {0, room}), 0.0)}, 1);
  const Value begin = b.reshape(node.step().of_each_rank(node.own_name("begin"), begins), {});
  const Value taken = b.dynamic_slice(x, {b.constant(int32_t{0}), begin}, {dims[0], width});
  const bool are_even = std::ranges::all_of(counts, [&](const auto& count) { return count == counts.front(); });
  if (are_even) return taken;
  const Value place = b.iota({Element::kS32, {dims[0], width}, {}}, 1);
  const Value count = everywhere(b, node.step().of_each_rank(node.own_name("columns"), counts), {dims[0], width});
  return b.select(b.compare(Direction::kLt, place, count), taken, b.fill_like(taken, 0.0));
}

Value count_rows(Builder& b, Value condition) {
  const Value ones = b.convert(condition, Element::kF32);
  return b.convert(b.reduce_add(ones, {1}), Element::kS32);
}

Value modulo(Builder& b, Value x, int64_t n) {
  if (std::has_single_bit(static_cast<uint64_t>(n))) {
    return b.binary(Opcode::kAnd, x, b.fill_like(x, static_cast<double>(n - 1)));
  }
  const Value divisor = b.fill_like(x, static_cast<double>(n));
  return b.subtract(x, b.multiply(b.divide(x, divisor), divisor));
}

Value activate(Builder& b, std::string_view name, Value x) {
  if (name == "sigmoid") return b.unary(Opcode::kLogistic, x);
  if (name == "silu") return b.multiply(x, b.unary(Opcode::kLogistic, x));
  if (name == "relu") return b.maximum(x, b.fill_like(x, 0.0));
  if (name == "squared_relu") {
    const Value part = b.maximum(x, b.fill_like(x, 0.0));
    return b.multiply(part, part);
  }
  const Value half = b.multiply(x, 0.5);
  if (name == "gelu") {
    return b.multiply(half, b.add(error_function(b, b.multiply(x, std::numbers::sqrt2 / 2)), 1.0));
  }
  LOCKSTEP_CHECK(name == "gelu_tanh", name);
  const Value cube = b.multiply(b.multiply(x, x), x);
  const Value inner = b.multiply(b.add(x, b.multiply(cube, 0.044715)), std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  return b.multiply(half, b.add(b.unary(Opcode::kTanh, inner), 1.0));
}

Value product(Builder& b, Value x, Value w) {
  return b.dot(x, w, {.lhs_contracting = {1}, .rhs_contracting = {1}}, Element::kF32);
}

}  // namespace lockstep::neuron
