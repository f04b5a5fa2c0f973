// Row-wise operations: norms, activations and caps.
#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/backends/neuron/lowering/step.h"

namespace lockstep::neuron {

using hlo::Builder;
using hlo::Element;
using hlo::Opcode;
using hlo::Value;

Result<void> lower_scale_rows(const NodeView& node) {
  Builder& b = node.builder();
  const Value x = to_f32(b, node.operand(0));
  node.set_result(b.multiply(x, along(b, column_of(b, node.operand(1), 0), b.dims_of(x), 0)));
  return ok();
}

Result<void> lower_scale_by_position(const NodeView& node) {
  Builder& b = node.builder();
  const Value x = to_f32(b, node.operand(0)), factors = node.operand(2);
  const Value position = node.operand(1);
  const auto number = [&](double n) { return b.fill_like(position, n); };
  const Value moved = b.add(position, number(static_cast<double>(node.integer_or("offset", 0))));
  const Value place = b.divide(moved, number(static_cast<double>(node.node().integer("every"))));
  const auto last = static_cast<double>(b.dims_of(factors)[0] - 1);
  const Value inside = b.maximum(b.minimum(place, number(last)), number(0.0));
  const Value factor = b.reshape(b.take_rows(b.reshape(factors, {b.dims_of(factors)[0], 1}), inside), node.dims(1));
  node.set_result(b.multiply(x, along(b, factor, b.dims_of(x), 0)));
  return ok();
}

Result<void> lower_soft_cap(const NodeView& node) {
  Builder& b = node.builder();
  const double cap = node.node().number("cap");
  const Value x = to_f32(b, node.operand(0));
  node.set_result(b.multiply(b.unary(Opcode::kTanh, b.divide(x, b.fill_like(x, cap))), cap));
  return ok();
}

namespace {

/// The mean of each row of a matrix, f32 [rows].
Value mean_of_rows(Builder& b, Value x) {
  return b.multiply(b.reduce_add(x, {1}), 1.0 / static_cast<double>(b.dims_of(x)[1]));
}

}  // namespace

Result<void> lower_cut_off(const NodeView& node) {
  Builder& b = node.builder();
  const Value x = to_f32(b, node.operand(0));
  const Value centred = b.subtract(x, along(b, mean_of_rows(b, x), b.dims_of(x), 0));
  const Value deviation = b.unary(Opcode::kSqrt, mean_of_rows(b, b.multiply(centred, centred)));
  const Value cut = b.multiply(deviation, node.node().number("deviations"));
  const Value rest = b.subtract(centred, along(b, cut, b.dims_of(x), 0));
  node.set_result(b.maximum(rest, b.fill_like(rest, 0.0)));
  return ok();
}

Result<void> lower_match_magnitude(const NodeView& node) {
  Builder& b = node.builder();
  const Value x = to_f32(b, node.operand(0)), like = to_f32(b, node.operand(1));
  const Value own = mean_of_rows(b, b.multiply(x, x));
  const Value divisor = b.unary(Opcode::kSqrt, b.maximum(own, b.fill_like(own, node.node().number("least"))));
  const Value factor = b.divide(b.unary(Opcode::kSqrt, mean_of_rows(b, b.multiply(like, like))), divisor);
  node.set_result(b.multiply(x, along(b, factor, b.dims_of(x), 0)));
  return ok();
}

Result<void> lower_weighted_sum(const NodeView& node) {
  Builder& b = node.builder();
  const Value factors = b.add(to_f32(b, node.operand(0)), node.number_or("offset", 0.0));
  const int64_t first = node.node().integer("first");
  std::optional<Value> sum;
  for (size_t term = 1; term < node.operands(); ++term) {
    const Value x = to_f32(b, node.operand(term));
    const int64_t column = first + static_cast<int64_t>(term) - 1;
    const Value part = b.multiply(x, along(b, column_of(b, factors, column), b.dims_of(x), 0));
    sum = sum ? b.add(*sum, part) : part;
  }
  node.set_result(*sum);
  return ok();
}

/// Padding heads are zero, and stay zero.
Result<void> lower_rms_norm(const NodeView& node) {
  Builder& b = node.builder();
  const bool has_weight = node.operands() > 1;
  const int64_t rows = node.dims(0)[0];
  const int64_t columns = node.step().graph().value(node.node().operands[0]).type.shape[1];  // without padding heads
  const int64_t width = has_weight ? node.dims(1)[0] : columns / node.integer_or("heads", 1);
  const Value x = b.reshape(to_f32(b, node.operand(0)), {rows, node.dims(0)[1] / width, width});
  const Value mean = b.multiply(b.reduce_add(b.multiply(x, x), {2}), 1.0 / static_cast<double>(width));
  const Value root = b.unary(Opcode::kRsqrt, b.add(mean, node.node().number("epsilon")));
  Value inner = b.multiply(x, b.broadcast(root, b.dims_of(x), {0, 1}));
  const double offset = node.number_or("offset", 0.0);
  if (!node.node().has("offset")) inner = to_f32(b, b.convert(inner, node.result_element()));
  if (has_weight) {
    Value weight = to_f32(b, node.operand(1));
    if (offset != 0.0) weight = b.add(weight, offset);
    inner = b.multiply(inner, along(b, weight, b.dims_of(x), 2));
  } else if (offset != 0.0) {
    inner = b.multiply(inner, 1.0 + offset);
  }
  node.set_result(b.reshape(inner, node.dims(0)));
  return ok();
}

Result<void> lower_layer_norm(const NodeView& node) {
  Builder& b = node.builder();
  const Value x = to_f32(b, node.operand(0));
  const std::vector<int64_t> dims = b.dims_of(x);
  const Value centred = b.subtract(x, along(b, mean_of_rows(b, x), dims, 0));
  const Value variance = mean_of_rows(b, b.multiply(centred, centred));
  const Value root = b.unary(Opcode::kRsqrt, b.add(variance, node.node().number("epsilon")));
  const Value normed = b.multiply(centred, along(b, root, dims, 0));
  Value weight = to_f32(b, node.operand(1));
  if (const double offset = node.number_or("offset", 0.0); offset != 0.0) weight = b.add(weight, offset);
  Value result = b.multiply(normed, along(b, weight, dims, 1));
  if (node.operands() > 2) result = b.add(result, along(b, to_f32(b, node.operand(2)), dims, 1));
  node.set_result(result);
  return ok();
}

Result<void> lower_activation(const NodeView& node) {
  Builder& b = node.builder();
  node.set_result(activate(b, node.node().text("activation"), to_f32(b, node.operand(0))));
  return ok();
}

Result<void> lower_gated_activation(const NodeView& node) {
  Builder& b = node.builder();
  Value gate = to_f32(b, node.operand(0)), up = gate;
  if (node.operands() > 1) {
    up = to_f32(b, node.operand(1));
  } else {
    const int64_t width = node.dims(0)[1] / 2;
    for (int rank = 0; rank < node.step().ranks(); ++rank) {
      const graph::Graph& graph = node.step().graph(rank);
      if (graph.value(*node.node(rank).result).type.shape[1] != width) {
        return node.unsupported("ranks hold different widths; lower the graphs before gate and up are joined");
      }
    }
    up = b.slice_dimension(gate, 1, {width, 2 * width});
    gate = b.slice_dimension(gate, 1, {0, width});
  }
  node.set_result(b.multiply(activate(b, node.node().text("activation"), gate), up));
  return ok();
}

}  // namespace lockstep::neuron
