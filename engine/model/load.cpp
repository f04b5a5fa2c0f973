#include "engine/model/load.h"

#include <fmt/format.h>

#include <deque>
#include <utility>

#include "engine/group/binding.h"
#include "engine/group/progress_reporter.h"
#include "engine/model/observed_weights.h"
#include "engine/model/weight_check.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/graph/passes.h"
#include "runtime/process/resident_memory.h"
#include "shards/cost/memory.h"
#include "shards/draft_model.h"
#include "shards/lookup_drafter.h"
#include "shards/shard_graphs.h"

namespace lockstep::model {
namespace {

Result<void> check_budget(const EngineOptions& options, const shards::ShardGraphs& graphs) {
  if (!options.memory_budget) return ok();
  const cost::RankMemory memory = cost::memory_of(graphs);
  if (memory.total() <= *options.memory_budget) return ok();
  return Error{
      ErrorKind::kResourceExhausted,
      fmt::format("[engine/model] --memory-budget: found {} ({} of weights, {} of states at full capacity and {} of "
                  "workspace), expected at most {} on a rank; use more ranks, or lower --max-seq-len, "
                  "--batch-size or --prefill-chunk; lockstep plan says what fits",
                  to_string(memory.total()), to_string(memory.weights), to_string(memory.states()),
                  to_string(memory.workspace), to_string(*options.memory_budget))};
}

/// The ordered collectives with their sizes, and the checkpoint's headers.
std::string statement_of(const checkpoint::Checkpoint* checkpoint, const shards::Shard& shard) {
  std::string text = shards::collective_list(shard.graphs());
  if (checkpoint != nullptr) {
    text += fmt::format("checkpoint headers and sizes {:016x}\n", checkpoint->fingerprint());
  }
  return text;
}

/// What is read of the weights of `graph`, one after the other: codes of a byte, or elements.
int64_t bytes_to_read(const graph::Graph& graph) {
  int64_t bytes = 0;
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kWeight)) {
    const graph::Value& weight = graph.value(id);
    bytes += weight.format ? weight.type.shape.elements() : weight.type.bytes();
  }
  return bytes;
}

/// One model while it is loaded.
struct LoadingModel {
  LoadingModel(std::string_view name, const ModelPlan& planned) : plan(planned), check(std::string(name)) {}

  const ModelPlan& plan;
  WeightCheck check;
  shards::ShardGraphs graphs;
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;  // null: weights are pseudo-random
  std::unique_ptr<shards::WeightSource> stored;
  std::unique_ptr<shards::Shard> shard;
};

/// Loads the models of one rank.
class Loader {
 public:
  Loader(group::Member& member, const Plan& plan, const EngineOptions& options, const device::BackendDriver& driver,
         device::Communicator* communicator)
      : member_(member), plan_(plan), options_(options), driver_(driver), communicator_(communicator) {}

  /// All that can fail before ranks exchange what they hold.
  Result<void> prepare() {
    const group::BoundThread bound(plan_.main_thread);
    LOCKSTEP_TRY_VOID(start_backend());
    LOCKSTEP_TRY_VOID(prepare_one(models_.emplace_back("the model", plan_.model)));
    if (plan_.draft) LOCKSTEP_TRY_VOID(prepare_one(models_.emplace_back("the draft model", *plan_.draft)));
    return ok();
  }

  /// Call after `prepare` on every rank. @collective @blocking
  Result<void> share_parts() {
    for (LoadingModel& model : models_) LOCKSTEP_TRY_VOID(model.check.share_parts(member_, model.graphs));
    return ok();
  }

  Result<void> load_all() {
    const group::BoundThread bound(plan_.main_thread);  // memory is placed near the core that first writes it
    for (LoadingModel& model : models_) LOCKSTEP_TRY_VOID(load_one(model));
    return add_drafter();
  }

  /// Call after `load_all` on every rank. @collective @blocking
  Result<LoadedModel> agree() && {
    loaded_.graphs->close();
    loaded_.loading.peak = peak_resident();
    const auto* const ahead = plan_.model.checkpoint ? member_.group().read_ahead(*plan_.model.checkpoint) : nullptr;
    if (ahead != nullptr) loaded_.loading.ahead = ahead->bytes_read();
    LOCKSTEP_TRY_VOID(member_.agree("graphs and weights", statement_));
    for (LoadingModel& model : models_) {
      LOCKSTEP_TRY_VOID(model.check.compare(member_, *model.stored));
      if (member_.leads() && model.checkpoint) member_.log().info("{}", model.check.in_words());
    }
    return std::move(loaded_);
  }

  /// Whether other ranks, which compile and load together, may wait for this one inside the backend.
  bool is_awaited() const { return loaded_.backend && loaded_.backend->capabilities().whole_group; }

 private:
  Result<void> start_backend();
  Result<shards::ShardGraphs> build_graphs(const ModelPlan& plan) const;
  Result<void> prepare_one(LoadingModel& model);
  Result<void> load_one(LoadingModel& model);
  Result<void> add_drafter();

  group::Member& member_;
  const Plan& plan_;
  const EngineOptions& options_;
  const device::BackendDriver& driver_;
  device::Communicator* communicator_;
  LoadedModel loaded_;
  std::deque<LoadingModel> models_;  // the model, and its draft model if there is one
  std::string statement_;
};

Result<void> Loader::start_backend() {
  LOCKSTEP_TRY(loaded_.backend,
               driver_.make(site_of(member_, options_, plan_), plan_.devices, options_.backend_options));
  const bool is_strict = options_.strictness == Strictness::kStrict;
  loaded_.graphs =
      std::make_unique<device::GraphRegister>(*loaded_.backend, is_strict ? device::GraphRegister::AfterClose::kRefuse
                                                                          : device::GraphRegister::AfterClose::kCount);
  loaded_.graphs->before_compile([this] { member_.phases().enter("compile"); });
  return ok();
}

/// The rank's graphs in the backend's form: after the passes, or before them and with those of all ranks.
Result<shards::ShardGraphs> Loader::build_graphs(const ModelPlan& plan) const {
  const bool whole_group = loaded_.backend->capabilities().whole_group;
  LOCKSTEP_TRY(auto graphs, shards::build_graphs(plan.spec, plan.partition, member_.rank(), plan.shard,
                                                 whole_group ? std::vector<graph::Pass>() : graph::default_passes()));
  if (!whole_group) return graphs;
  LOCKSTEP_TRY(graphs.group, shards::graphs_of_group(plan.spec, plan.partition, plan.shard));
  return graphs;
}

Result<void> Loader::prepare_one(LoadingModel& model) {
  member_.phases().enter("load");
  const ModelPlan& plan = model.plan;
  LOCKSTEP_TRY(model.graphs, build_graphs(plan));
  LOCKSTEP_TRY_VOID(check_budget(options_, model.graphs));
  LOCKSTEP_TRY_VOID(
      driver_.check(model.graphs.steps(), site_of(member_, options_, plan_), plan_.devices, options_.backend_options));
  model.stored = std::make_unique<shards::RandomWeights>();
  if (plan.checkpoint) {
    LOCKSTEP_TRY(model.checkpoint, checkpoint::open_model_checkpoint(*plan.checkpoint, plan.spec));
    const checkpoint::ReadAhead* const ahead = member_.group().read_ahead(*plan.checkpoint);
    const bool is_ahead = ahead != nullptr && ahead->is_reading();
    model.stored = std::make_unique<shards::CheckpointWeights>(
        *model.checkpoint, is_ahead ? shards::Fetching::kReadAhead : shards::Fetching::kAnnounced);
    if (member_.leads()) LOCKSTEP_TRY_VOID(model.check.read_sums(*plan.checkpoint, *model.checkpoint));
  }
  return ok();
}

Result<void> Loader::load_one(LoadingModel& model) {
  member_.phases().enter("load");
  auto* const progress = member_.leads() ? member_.group().progress() : nullptr;
  const auto& on_weights = member_.group().hooks().on_weights;
  if (progress != nullptr) progress->expect(Progress::Work::kLoading, bytes_to_read(model.graphs.decode.front()));
  const ObservedWeights observed(*model.stored, [&](const std::string& tensor, std::span<std::byte> read) {
    if (progress != nullptr) progress->add(Progress::Work::kLoading, std::ssize(read));
    if (on_weights) on_weights(member_.rank(), tensor, read);
  });
  const bool is_observed = progress != nullptr || on_weights;
  const shards::WeightSource& source = is_observed ? static_cast<const shards::WeightSource&>(observed) : *model.stored;
  auto shard = shards::Shard::create(std::move(model.graphs), model.plan.shard, *loaded_.graphs, communicator_, source,
                                     model.check.sums());
  if (progress != nullptr) progress->finish(Progress::Work::kLoading);
  LOCKSTEP_TRY(model.shard, std::move(shard));
  loaded_.graphs_expected += model.shard->graphs().all().size();
  statement_ += statement_of(model.checkpoint.get(), *model.shard);
  if (model.checkpoint) {
    loaded_.loading.read += Bytes(model.checkpoint->bytes_read());
    loaded_.loading.files += Bytes(model.checkpoint->bytes_of_files());
  }
  return ok();
}

/// Puts a drafter around the shard, if the plan has one.
Result<void> Loader::add_drafter() {
  std::unique_ptr<shards::Shard> shard = std::move(models_.front().shard);
  loaded_.shard = shard.get();
  std::unique_ptr<shards::Drafter> drafter;
  if (plan_.lookup) drafter = shards::make_lookup_drafter(*shard, *plan_.lookup);
  if (plan_.draft) {
    LOCKSTEP_TRY(drafter, shards::make_draft_model(std::move(models_.back().shard), *shard));
  }
  if (!drafter) {
    loaded_.engine = std::move(shard);
    return ok();
  }
  auto engine = std::make_unique<shards::SpeculativeEngine>(std::move(shard), std::move(drafter));
  loaded_.speculative = engine.get();
  loaded_.engine = std::move(engine);
  return ok();
}

}  // namespace

Result<LoadedModel> load(group::Member& member, const Plan& plan, const EngineOptions& options,
                         const device::BackendDriver& driver, device::Communicator* communicator) {
  Loader loader(member, plan, options, driver, communicator);
  LOCKSTEP_TRY_VOID(member.all_succeeded(loader.prepare()));
  LOCKSTEP_TRY_VOID(loader.share_parts());
  const Result<void> mine = loader.load_all();
  // Ranks that wait inside the backend detect the failure only when this rank ends.
  if (!mine.has_value() && loader.is_awaited()) return mine.error();
  member.phases().enter("agreement");
  LOCKSTEP_TRY_VOID(member.all_succeeded(mine));
  return std::move(loader).agree();
}

std::unique_ptr<WeightWatch> watch_weights(group::Member& member, const LoadedModel& loaded,
                                           const EngineOptions& options) {
  const auto resident = loaded.shard->store().resident_weights();
  if (const auto& on_resident = member.group().hooks().on_resident_weights) on_resident(member.rank(), resident);
  if (options.check_weights_s <= 0.0) return nullptr;
  return std::make_unique<WeightWatch>(
      resident, duration_of(options.check_weights_s), [&group = member.group(), rank = member.rank()](auto weight) {
        group.fail(rank, {ErrorKind::kFailedPrecondition,
                          fmt::format("[engine/model] rank {}: the weight {} has changed in memory: found another sum "
                                      "than after loading, expected the same; check the memory of this host",
                                      rank, weight),
                          rank});
      });
}

Bytes peak_resident() { return process::peak_resident_memory(); }

}  // namespace lockstep::model
