#include "runtime/backends/reference/buffer_plan.h"

#include <algorithm>
#include <limits>

#include "runtime/backends/reference/tensor.h"

namespace lockstep::reference {
namespace {

constexpr size_t kForever = std::numeric_limits<size_t>::max();

/// The last node that reads each value.
std::vector<size_t> last_uses(const graph::Graph& graph) {
  std::vector<size_t> last(graph.values.size(), 0);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    if (node.result) last[static_cast<size_t>(node.result->value)] = n;
    for (const graph::ValueId id : node.operands) last[static_cast<size_t>(id.value)] = n;
  }
  for (const graph::Output& output : graph.outputs) last[static_cast<size_t>(output.value.value)] = kForever;
  return last;
}

}  // namespace

BufferPlan plan_buffers(const graph::Graph& graph) {
  BufferPlan plan{std::vector<int>(graph.values.size(), -1), {}};
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const graph::ValueKind kind = graph.values[v].kind;
    if (kind != graph::ValueKind::kInput && kind != graph::ValueKind::kConstant) continue;
    plan.buffer[v] = static_cast<int>(plan.bytes.size());
    plan.bytes.push_back(held_bytes(graph.values[v].type));
  }
  const std::vector<size_t> last = last_uses(graph);
  std::vector<size_t> busy_until(plan.bytes.size(), kForever);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!graph.nodes[n].result) continue;
    const auto v = static_cast<size_t>(graph.nodes[n].result->value);
    const auto free = std::find_if(busy_until.begin(), busy_until.end(), [&](size_t until) { return until < n; });
    const auto b = static_cast<size_t>(free - busy_until.begin());
    if (free == busy_until.end()) {
      busy_until.push_back(0);
      plan.bytes.push_back(0);
    }
    busy_until[b] = last[v];
    plan.bytes[b] = std::max(plan.bytes[b], held_bytes(graph.values[v].type));
    plan.buffer[v] = static_cast<int>(b);
  }
  return plan;
}

}  // namespace lockstep::reference
