// A fusion plan as text.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/backends/cpu/fusion_plan.h"

namespace lockstep::cpu {
namespace {

std::string_view to_string(Fused::As as) {
  switch (as) {
    case Fused::As::kStage: return "";
    case Fused::As::kRowsOf: return "rows of";
    case Fused::As::kColumnsOf: return "columns of";
    case Fused::As::kHalvesOf: return "halves of";
    case Fused::As::kQueryHeadsOf: return "query heads of";
    case Fused::As::kCacheHeadsOf: return "cache heads of";
    case Fused::As::kRootsInPlaceOf: return "roots in place of";
  }
  return "";
}

/// The name of a node: its result, or the state that it updates.
std::string name_of(const graph::Graph& graph, const graph::Node& node) {
  const graph::ValueId value = node.result.value_or(node.operands.at(node.op == graph::Op::kKvAppend ? 1 : 0));
  return fmt::format("%{} {}", graph.value(value).name, graph::to_string(node.op));
}

}  // namespace

std::string to_text(const graph::Graph& graph, const FusionPlan& plan) {
  std::string text;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const Fused& fused = plan.nodes[i];
    if (fused.as == Fused::As::kStage) continue;
    const graph::Node& other = graph.nodes[static_cast<size_t>(fused.of)];
    text += fmt::format("{} → {} {}\n", name_of(graph, graph.nodes[i]), to_string(fused.as), name_of(graph, other));
  }
  return text;
}

std::string explain(const graph::Graph& graph) {
  const FusionPlan plan = plan_fusion(graph);
  const auto fused = std::ranges::count_if(plan.nodes, [](const Fused& node) { return node.as != Fused::As::kStage; });
  return fmt::format("{}, rank {} of {}, rows {}: {} of {} nodes are fused with another\n{}", graph.name, graph.rank,
                     graph.ranks, graph.rows, fused, plan.nodes.size(), to_text(graph, plan));
}

}  // namespace lockstep::cpu
