#include <algorithm>
#include <limits>
#include <vector>

#include "runtime/graph/coded_weights.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/operations.h"

namespace lockstep::graph {
namespace {

// A graph from a text may have sizes whose product overflows; the product is clipped instead.
int64_t clipped_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}
int64_t clipped_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

const TensorType& operand_type(const Graph& graph, const Node& node, size_t index) {
  return graph.value(node.operands.at(index)).type;
}

/// Bytes of operand `index`, whole.
int64_t operand_bytes(const Graph& graph, const Node& node, size_t index) {
  const TensorType& type = operand_type(graph, node, index);
  const std::optional<WeightFormat> format = format_of(graph, node, index);
  return format ? coded_bytes(type.shape[0], column_groups(graph, node, index), *format) : type.bytes();
}

/// The bytes of operand `index` that `node` reads in one step. A gather reads one row per token. All local experts
/// count, because a batch soon routes to each of them.
int64_t bytes_read(const Graph& graph, const Node& node, size_t index) {
  const int64_t bytes = operand_bytes(graph, node, index), table_rows = operand_type(graph, node, index).shape[0];
  const bool is_gathered = (node.op == Op::kEmbedding || node.op == Op::kLookup) && index == 1;
  if (!is_gathered || table_rows == 0) return bytes;
  return bytes / table_rows * std::min(operand_type(graph, node, 0).shape[0], table_rows);
}

/// A weight read by several nodes (a tied embedding) counts once, for the node that reads most of it.
void add_weight_bytes(const Graph& graph, std::vector<NodeCost>& costs) {
  struct Reader {
    size_t node = 0;
    int64_t bytes = 0;
  };
  std::vector<Reader> most(graph.values.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (graph.value(node.operands[i]).kind != ValueKind::kWeight) continue;
      Reader& reader = most[static_cast<size_t>(node.operands[i].value)];
      const int64_t bytes = bytes_read(graph, node, i);
      if (bytes > reader.bytes) reader = {n, bytes};
    }
  }
  for (const Reader& reader : most) {
    if (reader.bytes == 0) continue;
    int64_t& bytes = costs[reader.node].weight_bytes;
    bytes = clipped_sum(bytes, reader.bytes);
  }
}

/// Expert arithmetic with evenly spread routing: this rank does its share of the chosen experts.
int64_t expert_flops(const Graph& graph, const Node& node) {
  const TensorType& route = operand_type(graph, node, 1);
  if (route.shape[1] == 0) return 0;
  int64_t elements = 0;
  for (size_t matrix = 2; matrix < 5; ++matrix) {
    elements = clipped_sum(elements, operand_type(graph, node, matrix).shape.elements());
  }
  const int64_t row_experts = clipped_product(route.shape[0], experts_of_row(graph, node.operands[1]));
  return clipped_product(2, clipped_product(row_experts, elements) / route.shape[1]);
}

/// Arithmetic of a recurrence in blocks: products of each row with the state at its block's border (three with the
/// making of that state) and, on average, with half the rows of a block.
int64_t delta_rule_flops(const Graph& graph, const Node& node) {
  const Shape& keys = operand_type(graph, node, 4).shape;     // [S, 2·G, k, B]
  const Shape& borders = operand_type(graph, node, 7).shape;  // [S, 2·H, k, v]
  const int64_t of_keys = clipped_product(keys[1] / 2, clipped_product(keys[2], keys[3]));
  const int64_t of_values = clipped_product(borders[1] / 2, clipped_product(borders[3], 3 * borders[2] + keys[3]));
  return clipped_product(2, clipped_product(operand_type(graph, node, 0).shape[0], clipped_sum(of_keys, of_values)));
}

int64_t flops_of(const Graph& graph, const Node& node) {
  if (node.op == Op::kGatedDeltaRule) return delta_rule_flops(graph, node);
  if (node.op == Op::kMoeExperts) return expert_flops(graph, node);
  if (node.op != Op::kLinear && node.op != Op::kLinearBlocks && node.op != Op::kHeadLinear) return 0;
  const int64_t multiply_adds =
      clipped_product(operand_type(graph, node, 0).shape[0], operand_type(graph, node, 1).shape.elements());
  return clipped_product(2, multiply_adds);
}

int64_t contributed_bytes(const Graph& graph, const Node& node) {
  if (!is_collective(node.op)) return 0;
  // Which rows this rank owns is known only at run time; its share is the average, and exact in a decode step.
  if (node.op == Op::kRowsOfOwners) return operand_type(graph, node, 0).bytes() / graph.ranks;
  if (node.op != Op::kAgree) return operand_type(graph, node, 0).bytes();
  constexpr int64_t kChecksumBytes = 8;
  return kChecksumBytes + graph.slots * 4;  // and a stop request per slot
}

}  // namespace

int64_t stored_bytes(const Graph& graph, ValueId weight) {
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] == weight) return operand_bytes(graph, node, i);
    }
  }
  return graph.value(weight).type.bytes();
}

std::vector<NodeCost> node_costs(const Graph& graph) {
  std::vector<NodeCost> costs(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    costs[n].flops = flops_of(graph, node);
    costs[n].sent_bytes = contributed_bytes(graph, node);
    costs[n].is_collective = is_collective(node.op);
  }
  add_weight_bytes(graph, costs);
  return costs;
}

StepCost cost_of(const Graph& graph) {
  StepCost cost;
  for (ValueId state : graph.values_of(ValueKind::kState)) {
    cost.state_bytes = clipped_sum(cost.state_bytes, graph.value(state).type.bytes());
  }
  for (const NodeCost& node : node_costs(graph)) {
    cost.weight_bytes = clipped_sum(cost.weight_bytes, node.weight_bytes);
    cost.flops = clipped_sum(cost.flops, node.flops);
    cost.collectives += node.is_collective ? 1 : 0;
    cost.collective_bytes = clipped_sum(cost.collective_bytes, node.sent_bytes);
  }
  return cost;
}

}  // namespace lockstep::graph
