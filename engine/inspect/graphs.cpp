#include <fmt/format.h>

#include "engine/drivers.h"
#include "engine/model/plan.h"
#include "lockstep/inspect.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/graph/passes.h"
#include "runtime/graph/text.h"
#include "shards/shard_graphs.h"

namespace lockstep {
namespace {

/// The model's plan, with the head untied where its files hold another one than the embedding, as an engine does.
Result<model::ModelPlan> planned(const Model& model, const EngineOptions& options, int ranks) {
  LOCKSTEP_TRY(const device::BackendDriver* driver, engine::find_driver(options.backend));
  LOCKSTEP_TRY(model::Plan plan, model::plan_models(model, options, ranks, driver->capabilities()));
  model::ModelPlan own = std::move(plan.model);
  if (!own.spec.tied_embeddings || !own.checkpoint) return own;
  LOCKSTEP_TRY(const bool has_head, checkpoint::holds_own_head(*own.checkpoint, own.spec, {0, own.spec.vocabulary}));
  if (!has_head) return own;
  own.spec.tied_embeddings = false;
  LOCKSTEP_TRY(own.partition, partition::make_partition(own.spec, ranks, own.partition.expert_split,
                                                        own.partition.numerics, own.partition.gqa));
  return own;
}

}  // namespace

Result<std::vector<graph::Graph>> graphs_of_rank(const Model& model, const EngineOptions& options, int ranks, int rank,
                                                 GraphForm form) {
  if (rank < 0 || rank >= ranks) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[engine/inspect] cannot show a graph: found rank {}, expected 0 to {}; choose another rank", rank,
                    ranks - 1)};
  }
  LOCKSTEP_TRY(const model::ModelPlan plan, planned(model, options, ranks));
  const auto passes = form == GraphForm::kCompiled ? graph::default_passes() : std::vector<graph::Pass>();
  LOCKSTEP_TRY(const shards::ShardGraphs built,
               shards::build_graphs(plan.spec, plan.partition, rank, plan.shard, passes));
  std::vector<graph::Graph> graphs;
  for (const graph::Graph* step : built.all()) graphs.push_back(*step);
  return graphs;
}

std::string to_text(const graph::Graph& graph) { return graph::to_text(graph); }

}  // namespace lockstep
