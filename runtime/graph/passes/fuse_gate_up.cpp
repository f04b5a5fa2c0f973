#include <map>

#include "runtime/graph/passes.h"
#include "runtime/graph/passes/join_linears.h"
#include "runtime/graph/verifier.h"

namespace lockstep::graph {

Result<Graph> fuse_gate_up(const Graph& graph) {
  LOCKSTEP_TRY_VOID(verify(graph));
  const Uses uses(graph);
  std::map<ValueId, size_t> producers;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].result) producers.emplace(*graph.nodes[i].result, i);
  }
  std::vector<LinearGroup> groups;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op != Op::kGatedActivation || node.operands.size() != 2) continue;
    const auto gate = producers.find(node.operands[0]);
    const auto up = producers.find(node.operands[1]);
    if (gate == producers.end() || up == producers.end()) continue;
    const bool is_private = uses.is_read_once(node.operands[0]) && uses.is_read_once(node.operands[1]);
    const std::vector<size_t> linears{gate->second, up->second};
    if (is_private && can_join(graph, uses, linears)) groups.push_back({linears, i});
  }
  return join_linears(graph, uses, groups);
}

}  // namespace lockstep::graph
