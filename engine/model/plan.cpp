#include "engine/model/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/group/binding.h"
#include "engine/group/build_id.h"
#include "engine/group/communicators.h"
#include "engine/group/environment.h"
#include "engine/model/identity.h"
#include "engine/model/requirements.h"
#include "engine/model/served_spec.h"
#include "lockstep/time_limits.h"
#include "runtime/checkpoint/config_difference.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/core/field_list.h"
#include "runtime/gguf/model_texts.h"
#include "shards/buckets.h"

namespace lockstep::model {
namespace {

using checkpoint::ModelSpec;

constexpr int64_t kDefaultSlots = 8;
constexpr int64_t kMostScoredRows = 64;  // rows whose logits of the whole vocabulary are in memory at once

Error refused(std::string_view option, const std::string& found, const std::string& expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/model] {}: found {}, expected {}", option, found, expected)};
}

Result<void> check_times(const EngineOptions& options) {
  const auto within = [](std::string_view option, double value, TimeLimits limits,
                         std::string_view unit) -> Result<void> {
    if (value >= limits.least && value <= limits.most) return ok();  // NaN is not
    return refused(option, fmt::format("{}", value), fmt::format("{} to {} {}", limits.least, limits.most, unit));
  };
  LOCKSTEP_TRY_VOID(within("--check-weights-s", options.check_weights_s, kCheckWeightsSeconds, "seconds"));
  LOCKSTEP_TRY_VOID(
      within("--chunk-budget-ms", options.chunk_budget_ms.value_or(0.0), kChunkBudgetMilliseconds, "milliseconds"));
  return within("--metrics-interval-s", options.observe.metrics_interval_s, kMetricsIntervalSeconds, "seconds");
}

/// Rows of prefill steps, at most `most`; token by token means steps of one row.
std::vector<int64_t> fitting(std::vector<int64_t> buckets, int64_t most) {
  for (int64_t& bucket : buckets) bucket = std::clamp<int64_t>(bucket, 1, most);
  buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
  return buckets;
}

Result<int64_t> capacity_of(const Model& model, const EngineOptions& options) {
  const std::optional<int64_t> most = model.longest_sequence();
  const int64_t capacity = options.capacity.value_or(most.value_or(model.spec().max_positions));
  if (most && capacity > *most) {
    return refused("--max-seq-len", fmt::format("{}", capacity),
                   fmt::format("at most {} (max_position_embeddings of the model); lower it", *most));
  }
  const ModelOptions& changes = model.options();
  if (!changes.window || *changes.window + changes.pinned_sinks <= capacity) return capacity;
  const bool has_sinks = changes.pinned_sinks > 0;
  return refused("--window",
                 has_sinks ? fmt::format("{} and --pinned-sinks {}", *changes.window, changes.pinned_sinks)
                           : fmt::format("{}", *changes.window),
                 fmt::format("at most {}{}, the capacity of a slot; raise --max-seq-len or lower it", capacity,
                             has_sinks ? " together" : ""));
}

/// The draft model of a target: the target's slots and chunk, and room for drafts beyond the target's capacity.
Result<ModelPlan> plan_draft(const std::filesystem::path& directory, const ModelPlan& target_model,
                             const ModelOptions& target_options, int ranks) {
  const shards::ShardOptions& target = target_model.shard;
  ModelPlan draft;
  LOCKSTEP_TRY(draft.spec, checkpoint::read_spec(directory / "config.json"));
  if (!draft.spec.formats.any() && target_options.weights) draft.spec.formats = target_model.spec.formats;
  draft.spec.cache_type = target_model.spec.cache_type;
  LOCKSTEP_TRY(draft.partition, partition::make_partition(draft.spec, ranks));
  draft.shard = {.slots = target.slots,
                 .chunk = target.chunk,
                 .capacity = target.capacity + target.drafts + 1,
                 .dtype = target.dtype};
  draft.checkpoint = directory;
  const bool has_table = draft.spec.positions == checkpoint::Positions::kLearned;
  if (!has_table || draft.shard.capacity <= draft.spec.max_positions) return draft;
  return refused(
      "--draft-model", fmt::format("a model of {} positions", draft.spec.max_positions),
      fmt::format("at least {} (a slot's capacity and the drafts); lower --max-seq-len or take another model",
                  draft.shard.capacity));
}

/// Facts of the model or of its draft model; every line begins with `name`.
std::string statement_of_model(std::string_view name, const ModelPlan& model) {
  return fields_to_text(model.spec, fmt::format("{}: ", name)) +
         fields_to_text(model.shard, fmt::format("{}: ", name)) + partition::to_text(model.spec, model.partition);
}

/// "; config.json has rope_theta 1e4 on rank 1, 1e6 on rank 0".
std::string differences_in_words(const std::vector<checkpoint::DifferingKey>& keys, int rank) {
  constexpr size_t kShown = 6;
  std::string text;
  for (size_t i = 0; i < std::min(keys.size(), kShown); ++i) {
    text += fmt::format("; config.json has {} {} on rank {}, {} on rank 0", keys[i].key, keys[i].found, rank,
                        keys[i].expected);
  }
  if (keys.size() > kShown) text += fmt::format("; {} more keys differ", keys.size() - kShown);
  return text;
}

/// Unties the head if the model's files hold a head that differs from the embedding, as transformers does.
/// @collective @blocking
Result<void> find_own_head(group::Member& member, ModelPlan& model) {
  if (!model.spec.tied_embeddings || !model.checkpoint) return ok();
  const int64_t rows = model.spec.vocabulary, rank = member.rank(), ranks = member.size();
  const Result<bool> mine =
      checkpoint::holds_own_head(*model.checkpoint, model.spec, {rows * rank / ranks, rows * (rank + 1) / ranks});
  LOCKSTEP_TRY_VOID(member.all_succeeded(mine.has_value() ? Result<void>(ok()) : mine.error()));
  constexpr std::string_view kDiffers = "differs";
  LOCKSTEP_TRY(const auto found, member.bootstrap().exchange(mine.value() ? kDiffers : "equal"));
  if (std::ranges::find(found, kDiffers) == found.end()) return ok();
  if (member.leads()) {
    member.log().warning(
        "warning: config.json ties the head to the embedding, but {} holds another lm_head.weight, which is used; set "
        "tie_word_embeddings to false",
        model.checkpoint->string());
  }
  model.spec.tied_embeddings = false;
  LOCKSTEP_TRY(model.partition, partition::make_partition(model.spec, member.size(), model.partition.expert_split,
                                                          model.partition.numerics, model.partition.gqa));
  return ok();
}

/// Binds the ranks' main threads near their devices, where that excludes cores.
void move_near_devices(Plan& plan, size_t rank) {
  plan.placement = group::near_devices(std::move(plan.placement), plan.devices.near_cores);
  const device::RankPlace& own = plan.placement.ranks.at(rank).place;
  if (own.cores == plan.places.at(rank).cores) return;
  for (size_t i = 0; i < own.cores.size(); ++i) plan.main_thread.push_back(device::thread_of_core(own, i));
}

}  // namespace

Result<DividedModel> divide_model(const partition::Options& options, const ModelSpec& spec, int ranks,
                                  std::optional<int64_t> slots) {
  DividedModel model;
  LOCKSTEP_TRY(model.partition, partition::make_partition(spec, ranks, options.experts, options.numerics));
  if (options.gqa == partition::GqaMode::kAuto) return model;
  LOCKSTEP_TRY(const partition::GqaChoice choice, partition::choose_gqa(options.gqa, spec, ranks, slots));
  LOCKSTEP_TRY(model.partition, partition::make_partition(spec, ranks, options.experts, options.numerics, choice.mode));
  if (!choice.why_not.empty()) {
    model.warning = fmt::format("--gqa {}: {}; it is {} instead", partition::name_of(options.gqa), choice.why_not,
                                partition::name_of(choice.mode));
  }
  return model;
}

Result<shards::ShardOptions> shard_options(const EngineOptions& options, DType dtype, int64_t slots, int64_t capacity) {
  shards::ShardOptions shard{
      .slots = slots, .chunk = std::min(options.prefill_chunk, capacity * slots), .capacity = capacity, .dtype = dtype};
  if (slots == options.slots) shard.batch_sizes = options.batch_sizes;
  if (options.token_buckets) {
    LOCKSTEP_TRY(shard.token_buckets, shards::parse_token_buckets(*options.token_buckets, capacity));
    shard.context_buckets = shards::context_buckets(shard.token_buckets);
  }
  const bool is_explicit = !options.context_buckets.empty();
  if (is_explicit) shard.context_buckets = fitting(options.context_buckets, capacity * slots);
  if (shard.context_buckets.empty()) return shard;
  shard.chunk = shard.context_buckets.back();
  if (is_explicit && shard.context_buckets.size() == 1) shard.context_buckets.clear();  // like --prefill-chunk
  return shard;
}

Error embeddings_of_a_draft() {
  return {
      ErrorKind::kUnsupported,
      "[engine/model] cannot open an engine: found a draft model beside PromptEmbeddings::kOn, expected one of them "
      "(the draft model has embeddings of its own); draft by lookup, or omit one"};
}

Result<Plan> plan_models(const Model& model, const EngineOptions& options, int ranks,
                         const device::Capabilities& backend) {
  LOCKSTEP_TRY_VOID(check_times(options));
  Plan plan;
  ModelPlan& own = plan.model;
  own.spec = model.spec();
  own.checkpoint = model.directory();
  LOCKSTEP_TRY_VOID(require_operations(own.spec, backend));
  const int64_t slots = options.slots.value_or(kDefaultSlots);
  LOCKSTEP_TRY(DividedModel divided, divide_model(options.partition, own.spec, ranks, slots));
  own.partition = std::move(divided.partition);
  if (own.partition.gathers_key_values()) {
    LOCKSTEP_TRY_VOID(require_gathered_rounding(own.spec, own.partition.gqa));
  }
  if (!divided.warning.empty()) plan.warnings.push_back(divided.warning);
  LOCKSTEP_TRY(const int64_t capacity, capacity_of(model, options));
  LOCKSTEP_TRY(own.shard, shard_options(options, model.dtype(), slots, capacity));
  own.shard.drafts = options.drafting.tokens;
  own.shard.bucketed = shards::bucketed_steps(backend);
  const bool gives_logits = options.choosers == Choosers::kAllowed && own.shard.drafts == 0;
  if (gives_logits) own.shard.logits = families::StepShape::Logits::kOutput;
  if (options.scoring != Scoring::kOff) {
    if (options.scored_top < 0) return refused("--top", fmt::format("{}", options.scored_top), "0 or more");
    own.shard.score_rows = std::min(kMostScoredRows, own.shard.chunk);
    own.shard.score_top = std::min(options.scored_top, own.spec.vocabulary);
    if (options.scoring == Scoring::kLogits) own.shard.score_logits = families::StepShape::Logits::kOutput;
  }
  if (options.prompt_embeddings == PromptEmbeddings::kOn) {
    own.shard.embeddings = families::StepShape::Embeddings::kMixed;
  }
  if (own.shard.drafts == 0) return plan;
  if (options.drafting.model) {
    if (options.prompt_embeddings == PromptEmbeddings::kOn) return embeddings_of_a_draft();
    LOCKSTEP_TRY(plan.draft, plan_draft(*options.drafting.model, own, model.options(), ranks));
    LOCKSTEP_TRY_VOID(require_operations(plan.draft->spec, backend));
  } else {
    plan.lookup = {.ngram_size = static_cast<int32_t>(options.drafting.lookup_ngram)};
  }
  return plan;
}

Result<void> place_ranks(group::Member& member, const EngineOptions& options, const device::Capabilities& backend,
                         Plan& plan) {
  const group::State& group = member.group();
  LOCKSTEP_TRY(plan.places, group::places_of_job(member.bootstrap(), group.launch()));
  // Replicas share the cores of their hosts.
  const std::vector<device::RankPlace>& all = group.launch_places().empty() ? plan.places : group.launch_places();
  plan.launch = group::place_threads(all, group.launch().launcher, options.threads);
  plan.placement.launcher = group.launch().launcher;
  const int first = group.replica().first;
  for (const device::RankPlace& place : plan.places) {
    const int threads = plan.launch.ranks.at(static_cast<size_t>(first + place.rank)).threads;
    plan.placement.ranks.push_back({.place = place, .threads = threads});
  }
  plan.threads = plan.placement.ranks.at(static_cast<size_t>(member.rank())).threads;
  const bool binds = backend.host_threads && options.binding == ThreadBinding::kOwnCores;
  if (binds) plan.cores = group::cores_of_threads(plan.launch, first + member.rank());
  if (!plan.cores.empty()) plan.main_thread = {plan.cores.front()};
  return ok();
}

device::RankSite site_of(group::Member& member, const EngineOptions& options, const Plan& plan) {
  const group::State& group = member.group();
  return {.places = plan.places,
          .rank = member.rank(),
          .form = group.ranks_are_threads() ? device::RankForm::kThreads : device::RankForm::kProcesses,
          .threads = plan.threads,
          .cores = plan.cores,
          .control_address = group.control_plane().address,
          .step_deadline = group.options().deadline,
          .degrees = options.strictness == Strictness::kStrict ? device::Degrees::kDocumented : device::Degrees::kAny,
          .sums = plan.model.partition.numerics == partition::Numerics::kInvariant ? device::SumOrder::kFixed
                                                                                   : device::SumOrder::kAny,
          .build = group::build_id(),
          .exchange = [&member](std::string_view mine) { return member.bootstrap().exchange(mine); },
          .connect_devices = group::connect_devices(member),
          .environment = group::environment,
          .set_environment = group.options().set_environment,
          .log = &member.log(),
          .abort = &member.abort_flag(),
          .on_stuck =
              [&state = member.group(), rank = member.rank()](const Error& error) {
                const Error cause = state.fail(rank, error);
                if (state.options().on_stuck) state.options().on_stuck(cause);
              }};
}

namespace {

/// The devices of the group's ranks. Replicas share those of their hosts, so all ranks of the launch choose together;
/// cores of the host have been divided before.
Result<device::DevicePlan> place_on_devices(group::Member& member, const EngineOptions& options,
                                            const device::BackendDriver& driver, const Plan& plan) {
  group::State& group = member.group();
  device::RankSite site = site_of(member, options, plan);
  if (!group.replica().has_others() || driver.capabilities().host_threads) {
    return driver.place(site, options.backend_options);
  }
  const int first = group.replica().first;
  site.places = group.launch_places();
  site.rank = first + member.rank();
  site.exchange = [&group](std::string_view mine) { return group.exchange_on_launch(mine); };
  LOCKSTEP_TRY(device::DevicePlan all, driver.place(site, options.backend_options));
  const auto keep_own = [&](auto& by_rank) {
    if (by_rank.empty()) return;
    by_rank.erase(by_rank.begin() + first + member.size(), by_rank.end());
    by_rank.erase(by_rank.begin(), by_rank.begin() + first);
  };
  keep_own(all.devices);
  keep_own(all.ordinals);
  keep_own(all.near_cores);
  return all;
}

}  // namespace

Result<void> place(group::Member& member, const EngineOptions& options, const device::BackendDriver& driver,
                   Plan& plan) {
  LOCKSTEP_TRY_VOID(place_ranks(member, options, driver.capabilities(), plan));
  const bool speaks = member.leads() && member.group().replica().index == 0 && !member.group().hooks().shares_host;
  for (const group::Finding& finding : judge(plan.launch)) {
    if (speaks) member.log().warning("warning: {}; {}", finding.what, finding.fix);
  }
  LOCKSTEP_TRY(plan.devices, place_on_devices(member, options, driver, plan));
  for (const std::string& warning : plan.devices.warnings) {
    if (member.leads()) member.log().warning("warning: {}", warning);
  }
  for (size_t rank = 0; rank < plan.devices.devices.size(); ++rank) {
    plan.placement.ranks.at(rank).device = plan.devices.devices[rank];
  }
  if (plan.devices.near_cores.empty() || options.binding != ThreadBinding::kOwnCores) return ok();
  for (const group::Finding& finding : group::judge_devices(plan.placement, plan.devices.near_cores)) {
    if (member.leads()) member.log().warning("warning: {}; {}", finding.what, finding.fix);
  }
  move_near_devices(plan, static_cast<size_t>(member.rank()));
  return ok();
}

std::string statement_of(const Plan& plan, const EngineOptions& options, const device::BackendDriver& driver) {
  std::string text = fmt::format("--backend {}\n--communicator {}\n--dtype {}\n--weights {}\n--kv-dtype {}\n",
                                 driver.name(), options.communicator, to_string(plan.model.shard.dtype),
                                 weights_in_words(plan.model.spec), to_string(plan.model.spec.cache_type));
  text += driver.statement(options.backend_options) + statement_of_model("model", plan.model);
  if (plan.draft) text += statement_of_model("draft model", *plan.draft);
  return text;
}

Result<void> agree_on_plan(group::Member& member, const std::string& statement, const std::filesystem::path& config) {
  const Result<void> agreed = member.agree("options and model", statement);
  if (agreed.has_value() || agreed.error().kind != ErrorKind::kFailedPrecondition) return agreed;
  Error error = agreed.error();
  const auto own = gguf::read_model_text(config);
  LOCKSTEP_TRY(const auto configs,
               member.bootstrap().exchange(own.has_value() ? own.value().value_or("") : std::string()));
  const int rank = error.origin_rank.value_or(0);
  error.message +=
      differences_in_words(checkpoint::differing_keys(configs.at(static_cast<size_t>(rank)), configs.front()), rank);
  return error;
}

Result<Plan> make_plan(group::Member& member, const Model& model, const EngineOptions& options,
                       const device::BackendDriver& driver) {
  Plan plan;
  const auto locally = [&]() -> Result<void> {
    LOCKSTEP_TRY_VOID(driver.available());
    LOCKSTEP_TRY_VOID(driver.check_options(options.backend_options));
    LOCKSTEP_TRY(plan, plan_models(model, options, member.size(), driver.capabilities()));
    if (member.leads()) {
      LOCKSTEP_TRY(plan.identity, identity_of(model, options, driver));
    }
    return ok();
  };
  LOCKSTEP_TRY_VOID(member.all_succeeded(locally()));
  for (const std::string& warning : plan.warnings) {
    if (member.leads()) member.log().warning("warning: {}", warning);
  }
  LOCKSTEP_TRY_VOID(place(member, options, driver, plan));
  LOCKSTEP_TRY_VOID(agree_on_plan(member, statement_of(plan, options, driver), model.config_file()));
  // After the agreement, because only ranks that agree on a tied head look for another one together.
  LOCKSTEP_TRY_VOID(find_own_head(member, plan.model));
  if (plan.draft) LOCKSTEP_TRY_VOID(find_own_head(member, *plan.draft));
  return plan;
}

}  // namespace lockstep::model
