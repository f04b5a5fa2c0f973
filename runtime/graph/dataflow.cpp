#include "runtime/graph/dataflow.h"

namespace lockstep::graph {

Dataflow::Dataflow(const Graph& graph)
    : makers_(graph.values.size()), readers_(graph.values.size()), is_output_(graph.values.size(), false) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (ValueId operand : node.operands) readers_[index(operand)].push_back(i);
    if (node.result) makers_[index(*node.result)] = i;
  }
  for (const Output& output : graph.outputs) is_output_[index(output.value)] = true;
}

std::optional<size_t> Dataflow::only_reader(ValueId value) const {
  const std::vector<size_t>& all = readers(value);
  if (all.size() != 1 || is_output(value)) return std::nullopt;
  return all.front();
}

}  // namespace lockstep::graph
