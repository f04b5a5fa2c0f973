#include "launcher/inspect/compile_plan.h"

#include <fmt/format.h>

#include "launcher/ranks/serving_spec.h"
#include "shards/group_graphs.h"

namespace lockstep::launcher {
namespace {

Result<shards::ShardOptions> sizes_of(const CompileCommand& command, const checkpoint::ModelSpec& spec) {
  const int64_t capacity = command.model.max_seq_len.value_or(default_capacity(spec));
  if (const int64_t most = longest_sequence(spec).value_or(capacity); capacity > most) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] --max-seq-len: found {}, expected 1 to {} (max_position_embeddings of the "
                             "model); lower it",
                             capacity, most)};
  }
  LOCKSTEP_TRY(shards::ShardOptions sizes,
               shard_options(command.model, spec, command.model.batch_size.value_or(1), capacity));
  sizes.drafts = command.drafts;
  if (command.logits) sizes.logits = families::StepShape::Logits::kOutput;
  return sizes;
}

}  // namespace

std::vector<device::StepGraph> CompilePlan::graphs() const {
  std::vector<device::StepGraph> all;
  for (const std::vector<graph::Graph>& ranks : steps) all.emplace_back(ranks.front(), ranks);
  return all;
}

Result<CompilePlan> plan_compilation(const CompileCommand& command) {
  const std::filesystem::path config = command.config.empty() ? command.model.model / "config.json" : command.config;
  LOCKSTEP_TRY(const checkpoint::ModelSpec spec, serving_spec(command.model, config));
  LOCKSTEP_TRY(const shards::ShardOptions sizes, sizes_of(command, spec));
  LOCKSTEP_TRY(DividedModel divided, divide_model(command.model, spec, command.model.tp.value_or(1), sizes.slots));
  CompilePlan plan;
  plan.warning = std::move(divided.warning);
  LOCKSTEP_TRY(plan.steps, graphs_of_group(spec, divided.partition, sizes));
  return plan;
}

}  // namespace lockstep::launcher
