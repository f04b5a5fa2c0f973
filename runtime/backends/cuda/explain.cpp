#include "runtime/backends/cuda/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cuda/fusion_plan.h"
#include "runtime/backends/cuda/step_plan.h"

namespace lockstep::cuda {

std::string explain_fusion(const graph::Graph& graph) {
  const FusionPlan plan = plan_fusion(graph);
  const auto fused = std::ranges::count_if(plan.nodes, [](const Fused& node) { return node.as != Fused::As::kLaunch; });
  return fmt::format("{} of {} nodes are fused with another\n{}", fused, plan.nodes.size(), to_text(graph, plan));
}

Result<std::string> explain(const graph::Graph& graph) {
  const device::StepGraph step(graph);
  LOCKSTEP_TRY(const StoreLayout layout, StoreLayout::of({&step, 1}));
  LOCKSTEP_TRY(const StepPlan plan, plan_step(graph, layout, Bases{.starts_early = true}));
  const auto on_host = [&](Place place) { return std::ranges::count(plan.places, place); };
  std::string text = fmt::format(
      "{}, rank {} of {}, rows {}: {} launches and {} copies in one graph, {} nodes before it and {} after it on the "
      "host\nin {}, out {}, results {}, tables {}, seen by peers {}\n",
      graph.name, graph.rank, graph.ranks, graph.rows, plan.launches.size(), plan.copies.size() + 1,
      on_host(Place::kPrologue), on_host(Place::kEpilogue), to_string(Bytes(plan.head_bytes)),
      to_string(Bytes(plan.tail_bytes)), to_string(Bytes(plan.workspace_bytes)),
      to_string(Bytes(std::ssize(plan.tables))), to_string(Bytes(2 * plan.half_bytes)));
  for (const Launch& launch : plan.launches) {
    text += fmt::format(
        "{:<20} {:>6} blocks of {:>4} threads{}{}{}\n", launch.kernel, launch.shape.blocks, launch.shape.threads,
        launch.shape.shared_bytes > 0 ? fmt::format(", {} B shared", launch.shape.shared_bytes) : "",
        launch.shape.waits_for_blocks ? ", all resident" : "", launch.shape.starts_early ? ", early" : "");
  }
  return text + explain_fusion(graph);
}

}  // namespace lockstep::cuda
