#include "runtime/graph/coded_weights.h"

#include <algorithm>
#include <limits>

namespace lockstep::graph {
namespace {

/// The columns of a leaf of operand `operand`; all of them where the product is one sum.
int64_t leaf_of(const Node& node, size_t operand, int64_t columns) {
  const bool is_cut =
      node.op == Op::kLinearBlocks || (node.op == Op::kMoeExperts && operand == 4 && node.has("leaf", "columns"));
  return is_cut ? node.integer("block") : std::max<int64_t>(columns, 1);
}

}  // namespace

bool may_be_coded(Op op, size_t operand) {
  switch (op) {
    case Op::kEmbedding:
    case Op::kLinear:
    case Op::kLinearBlocks: return operand == 1;
    case Op::kMoeExperts: return operand >= 2 && operand <= 4;
    default: return false;
  }
}

std::optional<WeightFormat> format_of(const Graph& graph, const Node& node, size_t operand) {
  return operand < node.operands.size() ? graph.value(node.operands[operand]).format : std::nullopt;
}

ColumnGroups column_groups(const Graph& graph, const Node& node, size_t operand) {
  const Value& weight = graph.value(node.operands.at(operand));
  LOCKSTEP_CHECK(weight.format.has_value(), weight.name);
  const int64_t columns = weight.type.shape[1];
  return {.columns = columns, .leaf = leaf_of(node, operand, columns), .width = weight.format->group};
}

bool has_int8_activations(const Node& node) { return node.has("activations", "int8"); }

int64_t int8_group(const Graph& graph, const Node& node) {
  const bool is_product = node.op == Op::kLinear || node.op == Op::kLinearBlocks;
  const std::optional<WeightFormat> format = is_product ? format_of(graph, node, 1) : std::nullopt;
  if (!format || !has_int8_activations(node)) return 0;
  return *format == WeightFormat{.bits = 8, .group = format->group} ? format->group : 0;
}

int64_t coded_bytes(int64_t rows, const ColumnGroups& groups, const WeightFormat& format) {
  const int64_t bits = groups.columns * format.bits + groups.count() * overhead_bits(format);
  int64_t bytes = 0;
  return __builtin_mul_overflow(rows, (bits + 7) / 8, &bytes) ? std::numeric_limits<int64_t>::max() : bytes;
}

}  // namespace lockstep::graph
