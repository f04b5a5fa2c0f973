#include <algorithm>
#include <map>

#include "runtime/graph/passes.h"
#include "runtime/graph/passes/join_linears.h"
#include "runtime/graph/verifier.h"

namespace lockstep::graph {
namespace {

/// Whether attention's side of a layer reads the result: rope turns it, kv_append stores it or attention asks with it.
bool feeds_attention(const Graph& graph, const Uses& uses, const Node& linear) {
  const std::vector<size_t>& readers = uses.nodes_of(*linear.result);
  return std::any_of(readers.begin(), readers.end(), [&](size_t reader) {
    const Op op = graph.nodes[reader].op;
    return op == Op::kRope || op == Op::kKvAppend || op == Op::kAttention;
  });
}

}  // namespace

Result<Graph> fuse_qkv(const Graph& graph) {
  LOCKSTEP_TRY_VOID(verify(graph));
  const Uses uses(graph);
  std::map<ValueId, std::vector<size_t>> by_operand;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == Op::kLinear && feeds_attention(graph, uses, node)) by_operand[node.operands[0]].push_back(i);
  }
  std::vector<LinearGroup> groups;
  for (const auto& [operand, linears] : by_operand) {
    if (can_join(graph, uses, linears)) groups.push_back({linears, std::nullopt});
  }
  return join_linears(graph, uses, groups);
}

}  // namespace lockstep::graph
