#include "launcher/generate/rank_plan.h"

#include <fmt/format.h>

#include "launcher/generate/job.h"
#include "launcher/ranks/agreements.h"
#include "launcher/ranks/serving_spec.h"

namespace lockstep::launcher {
namespace {

/// The draft model of a target: its slots, chunk and weights, and room for drafts beyond the target's capacity. Fails
/// as `checkpoint::read_spec` and `partition::make_partition`, and with `kInvalidArgument` when its table of positions
/// ends before.
Result<ModelPlan> plan_draft(const std::filesystem::path& directory, const ModelPlan& target_model, int ranks) {
  const shards::ShardOptions& target = target_model.shard;
  ModelPlan draft;
  LOCKSTEP_TRY(draft.spec, checkpoint::read_spec(directory / "config.json"));
  if (draft.spec.experts == 0) draft.spec.int8_group = target_model.spec.int8_group;
  LOCKSTEP_TRY(draft.partition, partition::make_partition(draft.spec, ranks));
  draft.shard = {.slots = target.slots,
                 .chunk = target.chunk,
                 .capacity = target.capacity + target.drafts + 1,
                 .dtype = target.dtype};
  draft.checkpoint = directory;
  const bool has_table = draft.spec.positions == checkpoint::Positions::kLearned;
  if (!has_table || draft.shard.capacity <= draft.spec.max_positions) return draft;
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] --draft-model: found a model of {} positions, expected at least {} (a slot's "
                           "capacity and the drafts); lower --max-seq-len or take another model",
                           draft.spec.max_positions, draft.shard.capacity)};
}

}  // namespace

Result<std::optional<Plan>> make_plan(const GenerateCommand& command, const RankContext& context,
                                      const PrepareJob& prepare) {
  transport::Bootstrap& bootstrap = context.bootstrap;
  Plan plan;
  ModelPlan& model = plan.model;
  JobSizes own;
  const auto locally = [&]() -> Result<void> {
    LOCKSTEP_TRY_VOID(check_world_size(command.model.tp, bootstrap.size()));
    LOCKSTEP_TRY_VOID(check_backend(context.run));
    LOCKSTEP_TRY(model.spec, serving_spec(command.model, command.model.model / "config.json"));
    LOCKSTEP_TRY_VOID(divide_model(command.model, model.spec, bootstrap.size(), std::nullopt));
    if (bootstrap.rank() == 0) {
      LOCKSTEP_TRY(own, prepare(model.spec));
    }
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, locally()));
  LOCKSTEP_TRY(const std::vector<std::string> told, bootstrap.exchange(to_text(own)));
  LOCKSTEP_TRY(const JobSizes sizes, parse_sizes(told.front()));

  if (sizes.slots == 0) return std::optional<Plan>();

  const auto size = [&]() -> Result<void> {
    LOCKSTEP_TRY(DividedModel divided, divide_model(command.model, model.spec, bootstrap.size(), sizes.slots));
    model.partition = std::move(divided.partition);
    if (bootstrap.rank() == 0 && !divided.warning.empty()) context.log.warning("warning: {}", divided.warning);
    LOCKSTEP_TRY(model.shard, shard_options(command.model, model.spec, sizes.slots, sizes.capacity));
    model.shard.drafts = sizes.drafts;
    if (sizes.wants_logits) model.shard.logits = families::StepShape::Logits::kOutput;
    model.checkpoint = command.model.model;
    if (sizes.ngram > 0) plan.lookup = {.ngram_size = static_cast<int32_t>(sizes.ngram)};
    if (command.draft_model) {
      LOCKSTEP_TRY(plan.draft, plan_draft(*command.draft_model, model, bootstrap.size()));
    }
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, size()));
  LOCKSTEP_TRY_VOID(find_places(context, plan));
  LOCKSTEP_TRY_VOID(
      agree_on_plan(bootstrap, statement_before_weights(command, plan), command.model.model / "config.json"));
  LOCKSTEP_TRY_VOID(find_own_head(context, model));
  if (plan.draft) LOCKSTEP_TRY_VOID(find_own_head(context, *plan.draft));
  return std::optional(std::move(plan));
}

Result<RunFacts> facts_of(const RankContext& context, const Plan& plan, const LoadedModel& loaded,
                          const device::Communicator* communicator,
                          const std::vector<std::pair<std::string, double>>& startup) {
  LOCKSTEP_TRY(const auto memories,
               context.bootstrap.exchange(to_text(memory_of(loaded.shard->store(), loaded.loading))));
  RunFacts facts{.world_size = context.bootstrap.size(),
                 .threads = plan.threads,
                 .backend = context.run.backend,
                 .communicator = communicator == nullptr ? "none" : communicator->name(),
                 .slots = plan.model.shard.slots,
                 .chunk = plan.model.shard.chunk,
                 .capacity = plan.model.shard.capacity,
                 .batch_sizes = plan.model.shard.batch_sizes,
                 .context_buckets = plan.model.shard.context_buckets,
                 .token_buckets = plan.model.shard.token_buckets,
                 .dtype = std::string(to_string(plan.model.shard.dtype)),
                 .weights = weights_in_words(plan.model.spec),
                 .memory = {},
                 .startup = startup,
                 .graphs_expected = loaded.graphs_expected,
                 .graphs = loaded.graphs->compiled(),
                 .graphs_after_warmup = loaded.graphs->compiled_after_close(),
                 .drafts = std::nullopt,
                 .group = std::nullopt};
  if (loaded.speculative != nullptr) facts.drafts = loaded.speculative->statistics();
  for (const std::string& memory : memories) facts.memory.push_back(parse_memory(memory));
  return facts;
}

}  // namespace lockstep::launcher
