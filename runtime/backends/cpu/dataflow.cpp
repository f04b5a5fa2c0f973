#include "runtime/backends/cpu/dataflow.h"

namespace lockstep::cpu {

Dataflow::Dataflow(const graph::Graph& graph)
    : makers_(graph.values.size()), readers_(graph.values.size()), is_output_(graph.values.size(), false) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    for (graph::ValueId operand : node.operands) readers_[index(operand)].push_back(i);
    if (node.result) makers_[index(*node.result)] = i;
  }
  for (const graph::Output& output : graph.outputs) is_output_[index(output.value)] = true;
}

std::optional<size_t> Dataflow::only_reader(graph::ValueId value) const {
  const std::vector<size_t>& all = readers(value);
  if (all.size() != 1 || is_output(value)) return std::nullopt;
  return all.front();
}

}  // namespace lockstep::cpu
