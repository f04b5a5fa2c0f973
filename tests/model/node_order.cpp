#include "tests/model/node_order.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "runtime/core/check.h"
#include "runtime/graph/verifier.h"

namespace lockstep::model {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using graph::ValueKind;

/// By node: its predecessors.
std::vector<std::set<size_t>> nodes_before(const Graph& graph) {
  std::vector<std::set<size_t>> before(graph.nodes.size());
  std::map<ValueId, size_t> written;               // by the maker of a result, or the last update of a state
  std::map<ValueId, std::vector<size_t>> readers;  // since then
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const ValueId operand : node.operands) {
      if (const auto found = written.find(operand); found != written.end()) before[i].insert(found->second);
      readers[operand].push_back(i);
    }
    for (const size_t updated : graph::updated_operands(node.op)) {
      std::vector<size_t>& all = readers[node.operands[updated]];
      before[i].insert(all.begin(), all.end());
      before[i].erase(i);
      all.clear();
      written[node.operands[updated]] = i;
    }
    if (node.result) written[*node.result] = i;
  }
  return before;
}

/// One of the orders in which every node follows its predecessors.
std::vector<size_t> any_order(const Graph& graph, uint64_t seed) {
  std::vector<std::set<size_t>> before = nodes_before(graph);
  std::vector<size_t> order, ready;
  const auto take_ready = [&] {
    for (size_t i = 0; i < before.size(); ++i) {
      const bool is_new = std::ranges::count(order, i) == 0 && std::ranges::count(ready, i) == 0;
      if (is_new && before[i].empty()) ready.push_back(i);
    }
  };
  std::mt19937_64 random(seed);
  take_ready();
  while (!ready.empty()) {
    const auto chosen = ready.begin() + static_cast<std::ptrdiff_t>(random() % ready.size());
    order.push_back(*chosen);
    for (std::set<size_t>& nodes : before) nodes.erase(*chosen);
    ready.erase(chosen);
    take_ready();
  }
  LOCKSTEP_CHECK(order.size() == graph.nodes.size(), order.size());
  return order;
}

}  // namespace

Graph reordered(const Graph& graph, uint64_t seed) {
  Graph other = graph;
  other.values.clear();
  other.nodes.clear();
  std::map<ValueId, ValueId> renamed;
  const auto keep = [&](ValueId value) {
    renamed.emplace(value, ValueId(static_cast<int32_t>(other.values.size())));
    other.values.push_back(graph.value(value));
  };
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind != ValueKind::kResult) keep(ValueId(static_cast<int32_t>(i)));
  }
  for (const size_t index : any_order(graph, seed)) {
    Node node = graph.nodes[index];
    for (ValueId& operand : node.operands) operand = renamed.at(operand);
    if (node.result) {
      keep(*node.result);
      node.result = renamed.at(*node.result);
    }
    other.nodes.push_back(std::move(node));
  }
  for (graph::Output& output : other.outputs) output.value = renamed.at(output.value);
  const auto verified = graph::verify(other);
  LOCKSTEP_CHECK(verified.has_value(), verified.error().message);
  return other;
}

}  // namespace lockstep::model
