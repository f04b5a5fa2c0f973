// The order of creation of values and nodes, as printed by the text form.
#pragma once

#include <cstddef>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// Calls `on_value(id)` for each value without a producing node and `on_node(index)` for each node, in order of
/// creation. A node without a result is placed as late as possible: right before the next node with a result.
template <typename OnValue, typename OnNode>
void visit_in_creation_order(const Graph& graph, OnValue on_value, OnNode on_node) {
  size_t next = 0;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const ValueId id(static_cast<int32_t>(i));
    if (graph.values[i].kind != ValueKind::kResult) {
      on_value(id);
      continue;
    }
    bool is_made = false;
    while (next < graph.nodes.size() && !is_made) {
      is_made = graph.nodes[next].result == id;
      on_node(next++);
    }
  }
  while (next < graph.nodes.size()) on_node(next++);
}

}  // namespace lockstep::graph
