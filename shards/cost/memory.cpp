#include "shards/cost/memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace lockstep::cost {
namespace {

using graph::Graph;
using graph::ValueKind;

enum class CacheKind { kOfTokens, kRecurrence };

/// The caches by name: what the slots' sequences have been so far.
std::map<std::string_view, CacheKind> caches_of(const Graph& graph) {
  std::map<std::string_view, CacheKind> caches;
  for (const graph::Node& node : graph.nodes) {
    const CacheKind kind = graph::is_recurrence(node.op) ? CacheKind::kRecurrence : CacheKind::kOfTokens;
    for (const graph::ValueId state : graph::sequence_states(node)) caches.emplace(graph.value(state).name, kind);
  }
  return caches;
}

/// The most bytes of inputs and results that are live at one node.
int64_t workspace_of(const Graph& graph) {
  const size_t nodes = graph.nodes.size();
  std::vector<size_t> last(graph.values.size(), 0);
  for (size_t n = 0; n < nodes; ++n) {
    for (const graph::ValueId operand : graph.nodes[n].operands) last[static_cast<size_t>(operand.value)] = n;
    if (graph.nodes[n].result) last[static_cast<size_t>(graph.nodes[n].result->value)] = n;
  }
  for (const graph::Output& output : graph.outputs) last[static_cast<size_t>(output.value.value)] = nodes;
  int64_t alive = 0;
  std::vector<int64_t> dying(nodes + 1, 0);  // bytes with their last use at a node
  const auto begin_life = [&](graph::ValueId id) {
    const int64_t bytes = graph.value(id).type.bytes();
    alive += bytes;
    dying[last[static_cast<size_t>(id.value)]] += bytes;
  };
  for (const ValueKind kind : {ValueKind::kInput, ValueKind::kConstant}) {
    for (const graph::ValueId id : graph.values_of(kind)) alive += graph.value(id).type.bytes();
  }
  int64_t most = alive;
  for (size_t n = 0; n < nodes; ++n) {
    if (graph.nodes[n].result) begin_life(*graph.nodes[n].result);
    most = std::max(most, alive);
    alive -= dying[n];
  }
  return most;
}

}  // namespace

RankMemory memory_of(const shards::ShardGraphs& graphs) {
  RankMemory memory;
  std::set<std::string_view> counted;
  for (const Graph* graph : graphs.all()) {
    const auto caches = caches_of(*graph);
    for (size_t v = 0; v < graph->values.size(); ++v) {
      const graph::Value& value = graph->values[v];
      const bool stays = value.kind == ValueKind::kWeight || value.kind == ValueKind::kState;
      if (!stays || !counted.insert(value.name).second) continue;
      if (value.kind == ValueKind::kWeight) {
        memory.weights += Bytes(graph::stored_bytes(*graph, graph::ValueId(static_cast<int32_t>(v))));
        continue;
      }
      const auto cache = caches.find(value.name);
      (cache == caches.end() ? memory.slots : memory.cache) += Bytes(value.type.bytes());
      if (cache != caches.end() && cache->second == CacheKind::kRecurrence) {
        memory.recurrences += Bytes(value.type.bytes());
      }
    }
    memory.workspace += Bytes(workspace_of(*graph));
  }
  return memory;
}

}  // namespace lockstep::cost
