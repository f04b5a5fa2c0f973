// Lookups, products with weights, and copies of rows and columns.
#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/backends/neuron/lowering/step.h"

namespace lockstep::neuron {

using hlo::Builder;
using hlo::Direction;
using hlo::Value;

/// Rows beyond a rank's share of the table are zeros, so they need no check.
Result<void> lower_embedding(const NodeView& node) {
  Builder& b = node.builder();
  const Value ids = node.operand(0);
  const Value first = everywhere(b, node.integer_of_each_rank("first_row"), b.dims_of(ids));
  node.set_result(rows_or_zeros(b, node.operand(1), b.subtract(ids, first)));
  return ok();
}

Result<void> lower_linear(const NodeView& node) {
  Builder& b = node.builder();
  LOCKSTEP_TRY(Value y, product_with_weight(node, b.dims_of(node.operand(0))[1]));
  if (node.operands() > 2) y = b.add(y, along(b, to_f32(b, node.operand(2)), b.dims_of(y), 1));
  node.set_result(y);
  return ok();
}

/// One sum for all leaves: the device's order of sums is unspecified anyway.
Result<void> lower_linear_blocks(const NodeView& node) {
  LOCKSTEP_TRY(const Value y, product_with_weight(node, node.node().integer("block")));
  node.set_result(y);
  return ok();
}

Result<void> lower_lookup(const NodeView& node) {
  Builder& b = node.builder();
  Value index = b.add(node.operand(0), static_cast<double>(node.node().integer("offset")));
  if (node.node().has("otherwise")) {
    const Value is_inside = b.logical_and(b.compare(Direction::kGe, index, 0.0),
                                          b.compare(Direction::kLt, index, static_cast<double>(node.dims(1)[0])));
    index = b.select(is_inside, index, b.fill_like(index, static_cast<double>(node.node().integer("otherwise"))));
  }
  node.set_result(rows_or_zeros(b, node.operand(1), index));
  return ok();
}

Result<void> lower_add(const NodeView& node) {
  Builder& b = node.builder();
  const Value x = to_f32(b, node.operand(0));
  Value y = to_f32(b, node.operand(1));
  if (b.dims_of(y).size() == 1) y = along(b, y, b.dims_of(x), 1);
  node.set_result(b.add(x, y));
  return ok();
}

Result<void> lower_multiply(const NodeView& node) {
  Builder& b = node.builder();
  const Value x = to_f32(b, node.operand(0));
  Value y = to_f32(b, node.operand(1));
  if (b.dims_of(y).size() == 1) {
    const bool is_one = node.step().graph(0).value(node.node().operands[1]).type.shape[0] == 1;
    y = is_one ? b.broadcast(b.reshape(y, {}), b.dims_of(x), {}) : along(b, y, b.dims_of(x), 1);
  }
  node.set_result(b.multiply(x, y));
  return ok();
}

Result<void> lower_join_partials(const NodeView& node) {
  node.set_result(node.builder().concatenate({node.operand(0), node.operand(1)}, 1));
  return ok();
}

Result<void> lower_scale(const NodeView& node) {
  Builder& b = node.builder();
  node.set_result(b.multiply(to_f32(b, node.operand(0)), node.node().number("factor")));
  return ok();
}

Result<void> lower_columns(const NodeView& node) {
  const graph::ValueId x = node.node().operands[0];
  std::vector<Range> ranges;
  bool is_padded = false, differ = false;
  for (int rank = 0; rank < node.step().ranks(); ++rank) {
    ranges.push_back({node.node(rank).integer("begin"), node.node(rank).integer("end")});
    is_padded = is_padded || node.step().graph(rank).value(x).type.shape[1] != node.dims(0)[1];
    differ = differ || ranges.back() != ranges.front();
  }
  if (is_padded && differ) {
    return node.unsupported("ranks take different columns; lower the graphs before weights are joined");
  }
  node.set_result(columns_of_each_rank(node, node.operand(0), ranges));
  return ok();
}

Result<void> lower_first_rows(const NodeView& node) {
  node.set_result(node.builder().slice_dimension(node.operand(0), 0, {0, node.step().graph().rows}));
  return ok();
}

Result<void> lower_select_rows(const NodeView& node) {
  Builder& b = node.builder();
  const Value x = node.operand(0), rows = node.operand(1);
  // In a decode step row i is slot i, so nothing moves.
  const graph::Graph& graph = node.step().graph();
  for (const graph::Node& maker : graph.nodes) {
    if (maker.op == graph::Op::kRunningSlots && maker.result == node.node().operands[1] &&
        b.dims_of(x)[0] == b.dims_of(rows)[0]) {
      node.set_result(keep_rows(b, b.compare(Direction::kGe, rows, 0.0), x));
      return ok();
    }
  }
  node.set_result(rows_or_zeros(b, x, rows));
  return ok();
}

}  // namespace lockstep::neuron
