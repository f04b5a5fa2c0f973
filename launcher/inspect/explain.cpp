#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include "engine/drivers.h"
#include "engine/model/plan.h"
#include "engine/model/requirements.h"
#include "engine/model/served_spec.h"
#include "launcher/inspect/explain.h"
#include "runtime/graph/passes.h"
#include "runtime/graph/text.h"
#include "shards/cost/expert_reads.h"
#include "shards/partition/partition.h"
#include "shards/shard.h"
#include "shards/shard_graphs.h"

namespace lockstep::launcher {
namespace {

/// The kernels of the graph's attention nodes.
std::set<std::string> attention_kernels(const graph::Graph& graph) {
  std::set<std::string> kernels;
  for (const graph::Node& node : graph.nodes) {
    if (node.op == graph::Op::kAttention) kernels.insert(node.text("kernel"));
  }
  return kernels;
}

void print_summary(const graph::Graph& graph) {
  const graph::StepCost cost = graph::cost_of(graph);
  fmt::print(
      "{:<8} {:>4} rows  {:>12} weights  {:>12} states  {:>9.3f} GFLOP  {:>4} collectives  {:>12} sent  {} attention\n",
      graph.name, graph.rows, to_string(Bytes(cost.weight_bytes)), to_string(Bytes(cost.state_bytes)),
      static_cast<double>(cost.flops) * 1e-9, cost.collectives, to_string(Bytes(cost.collective_bytes)),
      fmt::join(attention_kernels(graph), ", "));
}

/// Prints the graph as the option --passes selects.
Result<void> print_graph(const graph::Graph& before, const std::string& passes) {
  if (passes == "before") {
    fmt::print("{}\n", graph::to_text(before));
    return ok();
  }
  graph::Graph graph = before;
  if (passes == "each") fmt::print("# as the family builds it\n{}\n", graph::to_text(graph));
  for (const graph::Pass& pass : graph::default_passes()) {
    LOCKSTEP_TRY(graph, graph::run_passes(graph, {pass}));
    if (passes == "each") fmt::print("# after {}\n{}\n", pass.name, graph::to_text(graph));
  }
  if (passes == "after") fmt::print("{}\n", graph::to_text(graph));
  return ok();
}

/// The backend's own view of graphs.
Result<const device::GraphInspector*> inspector_of(const device::BackendDriver& driver) {
  if (driver.inspector() != nullptr) return driver.inspector();
  std::vector<std::string_view> names;
  for (const device::BackendDriver* other : engine::drivers()) {
    if (other->inspector() != nullptr) names.push_back(other->name());
  }
  return Error{
      ErrorKind::kUnsupported,
      fmt::format("[launcher] --backend: found {}, which adds nothing to the graphs, expected {}; leave it out",
                  driver.name(), names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))};
}

/// Prints the backend's view of every graph of `phase`.
Result<void> print_backend_view(const ExplainCommand& command, const checkpoint::ModelSpec& spec,
                                const partition::Partition& partition, shards::ShardOptions options) {
  LOCKSTEP_TRY(const device::BackendDriver* driver, engine::find_driver(command.backend));
  LOCKSTEP_TRY(const device::GraphInspector* inspector, inspector_of(*driver));
  LOCKSTEP_TRY_VOID(model::require_operations(spec, driver->capabilities()));
  const bool whole_group = driver->capabilities().whole_group;
  options.bucketed = shards::bucketed_steps(driver->capabilities());
  LOCKSTEP_TRY(shards::ShardGraphs graphs,
               shards::build_graphs(spec, partition, command.rank, options,
                                    whole_group ? std::vector<graph::Pass>() : graph::default_passes()));
  if (whole_group) {
    LOCKSTEP_TRY(graphs.group, shards::graphs_of_group(spec, partition, options));
  }
  const std::vector<device::StepGraph> steps = graphs.steps();
  LOCKSTEP_TRY(const std::string summary, inspector->summary(steps));
  if (!summary.empty()) fmt::print("{}\n\n", summary);
  for (const device::StepGraph& step : steps) {
    const bool is_prefill = step.own.name.starts_with("prefill");
    if (command.phase == (is_prefill ? "decode" : "prefill")) continue;
    LOCKSTEP_TRY(const std::string text, inspector->text_of(step));
    fmt::print("{}\n", text);
  }
  return ok();
}

}  // namespace

Result<void> explain(const ExplainCommand& command) {
  LOCKSTEP_TRY(const Model model, Model::from_config(command.model.directory / "config.json", command.model.options));
  const checkpoint::ModelSpec& spec = model.spec();
  const EngineOptions& engine = command.engine;
  const int ranks = command.model.ranks.value_or(1);
  const int64_t slots = engine.slots.value_or(1);
  LOCKSTEP_TRY(const model::DividedModel divided, model::divide_model(engine.partition, spec, ranks, slots));
  const partition::Partition& partition = divided.partition;
  if (command.rank >= ranks) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] --rank: found {}, expected 0 to {}; ask for a rank of the {} that --tp gives",
                             command.rank, ranks - 1, ranks)};
  }
  const int64_t capacity = engine.capacity.value_or(model::default_capacity(spec));
  LOCKSTEP_TRY(const shards::ShardOptions options, model::shard_options(engine, model.dtype(), slots, capacity));
  if (!command.backend.empty()) return print_backend_view(command, spec, partition, options);
  LOCKSTEP_TRY(const shards::ShardGraphs before, shards::build_graphs(spec, partition, command.rank, options, {}));
  LOCKSTEP_TRY(const shards::ShardGraphs after,
               shards::build_graphs(spec, partition, command.rank, options, graph::default_passes()));

  if (command.show != "graph") {
    fmt::print("{}\n\n", model::architecture_line(spec, options.dtype));
    fmt::print("{}\n", partition::to_text(spec, partition));
    if (!divided.warning.empty()) fmt::print("{}\n\n", divided.warning);
    if (spec.experts > 0) fmt::print("{}\n", cost::compare_expert_splits(spec, ranks, options.dtype, options.slots));
    fmt::print("rank {}, after all passes, per step with all rows in use:\n", command.rank);
    for (const graph::Graph* graph : after.all()) print_summary(*graph);
    fmt::print("\n");
  }
  if (command.show == "summary") return ok();
  if (command.phase != "decode") {
    for (const graph::Graph& graph : before.prefill) LOCKSTEP_TRY_VOID(print_graph(graph, command.passes));
  }
  if (command.phase != "prefill") {
    for (const graph::Graph& graph : before.decode) LOCKSTEP_TRY_VOID(print_graph(graph, command.passes));
  }
  return ok();
}

}  // namespace lockstep::launcher
