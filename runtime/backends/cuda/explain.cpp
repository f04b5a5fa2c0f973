#include "runtime/backends/cuda/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cuda/fusion_plan.h"
#include "runtime/backends/cuda/launch_facts.h"
#include "runtime/backends/cuda/step_memory.h"

namespace lockstep::cuda {
namespace {

std::string line_of(const Launch& launch, const LaunchBytes& bytes, const StoreLayout& layout) {
  std::string text =
      fmt::format("{:<20} {:>6} blocks of {:>4} threads", launch.kernel, launch.shape.blocks, launch.shape.threads);
  if (launch.shape.shared_bytes > 0) text += fmt::format(", {} B shared", launch.shape.shared_bytes);
  if (launch.shape.waits_for_blocks) text += ", all resident";
  if (launch.shape.starts_early) text += ", early";
  text += fmt::format("; reads {:.0f} B", bytes.weights + bytes.cache + bytes.activations);
  if (bytes.weights > 0) text += fmt::format(", {:.0f} of weights", bytes.weights);
  if (bytes.cache > 0) text += fmt::format(", {:.0f} of cache", bytes.cache);
  return text + "; " + parameters_of(launch, layout) + "\n";
}

}  // namespace

std::string explain_fusion(const graph::Graph& graph) {
  const FusionPlan plan = plan_fusion(graph);
  const auto fused = std::ranges::count_if(plan.nodes, [](const Fused& node) { return node.as != Fused::As::kLaunch; });
  return fmt::format("{} of {} nodes are fused with another\n{}", fused, plan.nodes.size(), to_text(graph, plan));
}

Result<std::string> explain(const graph::Graph& graph) {
  const device::StepGraph step(graph);
  LOCKSTEP_TRY(const StoreLayout layout, StoreLayout::of({&step, 1}));
  Bases bases = marked_bases();
  bases.starts_early = true;
  LOCKSTEP_TRY(const StepPlan plan, plan_step(graph, layout, bases));
  const CachesInUse caches = full_caches(graph, layout);
  const std::vector<LaunchBytes> bytes = bytes_of_launches(graph, layout, plan, caches);
  LaunchBytes all;
  for (const LaunchBytes& each : bytes) all += each;
  const auto on_host = [&](Place place) { return std::ranges::count(plan.places, place); };
  std::string text = fmt::format(
      "{}, rank {} of {}, rows {}: {} launches and {} copies in one graph, {} nodes before it and {} after it on the "
      "host\nin {}, out {}, results {}, tables {}, seen by peers {}\n",
      graph.name, graph.rank, graph.ranks, graph.rows, plan.launches.size(), plan.copies.size() + 1,
      on_host(Place::kPrologue), on_host(Place::kEpilogue), to_string(Bytes(plan.head_bytes)),
      to_string(Bytes(plan.tail_bytes)), to_string(Bytes(plan.workspace_bytes)),
      to_string(Bytes(std::ssize(plan.tables))), to_string(Bytes(2 * plan.half_bytes)));
  text += fmt::format(
      "a step of {} sequence(s) of {} tokens, bytes: {:.0f} of weights, {:.0f} of keys and values, {:.0f} "
      "of activations read and {:.0f} written\n",
      caches.sequences, caches.tokens, all.weights, all.cache, all.activations, all.written);
  for (size_t i = 0; i < bytes.size(); ++i) text += line_of(plan.launches[i], bytes[i], layout);
  return text + explain_fusion(graph);
}

Result<std::string> explain_memory(std::span<const device::StepGraph> steps) {
  LOCKSTEP_TRY(const device::DeviceMemory memory, memory_of_steps(steps));
  return fmt::format("memory of a GPU: {} of weights, {} of keys and values of all slots, {} of workspace",
                     to_string(memory.weights), to_string(memory.cache), to_string(memory.workspace));
}

}  // namespace lockstep::cuda
