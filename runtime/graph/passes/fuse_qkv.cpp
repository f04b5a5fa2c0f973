#include <map>
#include <vector>

#include "runtime/graph/passes.h"
#include "runtime/graph/passes/join_linears.h"
#include "runtime/graph/verifier.h"

namespace lockstep::graph {
namespace {

/// Whether an operation passes its first operand on, row by row: q and k go through a head norm, a bias, a factor, a
/// slice, or into the space of latent keys.
bool hands_on(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kRmsNorm:
    case Op::kLayerNorm:
    case Op::kColumns:
    case Op::kHeadLinear:
    case Op::kJoinHeads:
    case Op::kScale: return true;
    case Op::kAdd: return graph.value(node.operands[1]).type.shape.rank() == 1;  // a bias, not a residual
    default: return false;
  }
}

/// For each value, whether attention reads it: through rope, kv_append or attention, directly or after operations that
/// pass it on.
std::vector<bool> values_for_attention(const Graph& graph) {
  std::vector<bool> is_read(graph.values.size(), false);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const bool is_attention = node.op == Op::kRope || node.op == Op::kKvAppend || node.op == Op::kAttention;
    if (is_attention || (hands_on(graph, node) && is_read[static_cast<size_t>(node.result->value)])) {
      is_read[static_cast<size_t>(node.operands[0].value)] = true;
    }
  }
  return is_read;
}

}  // namespace

Result<Graph> fuse_qkv(const Graph& graph) {
  LOCKSTEP_TRY_VOID(verify(graph));
  const Uses uses(graph);
  const std::vector<bool> is_for_attention = values_for_attention(graph);
  std::map<ValueId, std::vector<size_t>> by_operand;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op != Op::kLinear || !is_for_attention[static_cast<size_t>(node.result->value)]) continue;
    by_operand[node.operands[0]].push_back(i);
  }
  std::vector<LinearGroup> groups;
  for (const auto& [operand, linears] : by_operand) {
    if (can_join(graph, uses, linears)) groups.push_back({linears, std::nullopt});
  }
  return join_linears(graph, uses, groups);
}

}  // namespace lockstep::graph
