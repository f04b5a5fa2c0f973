#include "launcher/inspect/compile_plan.h"

#include <fmt/format.h>

#include "engine/model/plan.h"
#include "engine/model/requirements.h"
#include "engine/model/served_spec.h"
#include "shards/shard_graphs.h"

namespace lockstep::launcher {
namespace {

Result<shards::ShardOptions> sizes_of(const CompileCommand& command, const Model& model) {
  const EngineOptions& engine = command.engine;
  const int64_t capacity = engine.capacity.value_or(model::default_capacity(model.spec()));
  if (const int64_t most = model.longest_sequence().value_or(capacity); capacity > most) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] --max-seq-len: found {}, expected 1 to {} (max_position_embeddings of the "
                             "model); lower it",
                             capacity, most)};
  }
  LOCKSTEP_TRY(shards::ShardOptions sizes,
               model::shard_options(engine, model.dtype(), engine.slots.value_or(1), capacity));
  sizes.drafts = engine.drafting.tokens;
  if (command.logits) sizes.logits = families::StepShape::Logits::kOutput;
  return sizes;
}

}  // namespace

std::vector<device::StepGraph> CompilePlan::graphs() const {
  std::vector<device::StepGraph> all;
  for (const std::vector<graph::Graph>& ranks : steps) all.emplace_back(ranks.front(), ranks);
  return all;
}

Result<CompilePlan> plan_compilation(const CompileCommand& command, const device::Capabilities& backend) {
  LOCKSTEP_TRY(const Model model, command.config.empty() ? Model::from_config(command.model.directory / "config.json",
                                                                              command.model.options)
                                                         : Model::from_config(command.config, command.model.options));
  LOCKSTEP_TRY_VOID(model::require_operations(model.spec(), backend));
  LOCKSTEP_TRY(shards::ShardOptions sizes, sizes_of(command, model));
  sizes.bucketed = shards::bucketed_steps(backend);
  LOCKSTEP_TRY(model::DividedModel divided, model::divide_model(command.engine.partition, model.spec(),
                                                                command.model.ranks.value_or(1), sizes.slots));
  CompilePlan plan;
  plan.warning = std::move(divided.warning);
  LOCKSTEP_TRY(plan.steps, shards::graphs_of_group(model.spec(), divided.partition, sizes));
  return plan;
}

}  // namespace lockstep::launcher
