#include "engine/model/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/group/agreement.h"
#include "engine/group/binding.h"
#include "engine/model/counted_weights.h"
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

/// The contents of the tensors that this rank holds whole, one a line. An uneven split can leave only a part of such a
/// tensor to other ranks.
std::string whole_contents(std::string_view model, const shards::Shard& shard) {
  auto tensors = shard.replicated_tensors();
  std::ranges::sort(tensors, {}, &shards::TensorFingerprint::tensor);
  std::string text;
  for (const shards::TensorFingerprint& tensor : tensors) {
    text += fmt::format("contents of {} of {} {:016x}\n", tensor.tensor, model, tensor.fingerprint);
  }
  return text;
}

/// Loads the models of one rank.
class Loader {
 public:
  Loader(group::Member& member, const Plan& plan, const EngineOptions& options, const device::BackendDriver& driver,
         device::Communicator* communicator)
      : member_(member), plan_(plan), options_(options), driver_(driver), communicator_(communicator) {}

  Result<void> load_all() {
    const group::BoundThread bound(plan_.main_thread);  // memory is placed near the core that first writes it
    LOCKSTEP_TRY_VOID(start_backend());
    LOCKSTEP_TRY(std::unique_ptr<shards::Shard> shard, load_one("the model", plan_.model));
    std::unique_ptr<shards::Shard> draft;
    if (plan_.draft) {
      LOCKSTEP_TRY(draft, load_one("the draft model", *plan_.draft));
    }
    return add_drafter(std::move(shard), std::move(draft));
  }

  /// Call after `load_all` on every rank. @collective @blocking
  Result<LoadedModel> agree() && {
    loaded_.graphs->close();
    loaded_.loading.peak = peak_resident();
    const auto* const ahead = plan_.model.checkpoint ? member_.group().read_ahead(*plan_.model.checkpoint) : nullptr;
    if (ahead != nullptr) loaded_.loading.ahead = ahead->bytes_read();
    LOCKSTEP_TRY(const std::string common, group::common_lines(member_.bootstrap(), contents_));
    LOCKSTEP_TRY_VOID(member_.agree("graphs and weights", statement_ + common));
    return std::move(loaded_);
  }

  /// Whether other ranks, which compile and load together, may wait for this one inside the backend.
  bool is_awaited() const { return loaded_.backend && loaded_.backend->capabilities().whole_group; }

 private:
  Result<void> start_backend();
  Result<shards::ShardGraphs> build_graphs(const ModelPlan& plan) const;
  Result<std::unique_ptr<shards::Shard>> load_one(std::string_view name, const ModelPlan& plan);
  Result<void> add_drafter(std::unique_ptr<shards::Shard> shard, std::unique_ptr<shards::Shard> draft);

  group::Member& member_;
  const Plan& plan_;
  const EngineOptions& options_;
  const device::BackendDriver& driver_;
  device::Communicator* communicator_;
  LoadedModel loaded_;
  std::string statement_, contents_;
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

Result<std::unique_ptr<shards::Shard>> Loader::load_one(std::string_view name, const ModelPlan& plan) {
  member_.phases().enter("load");
  LOCKSTEP_TRY(auto graphs, build_graphs(plan));
  LOCKSTEP_TRY_VOID(check_budget(options_, graphs));
  LOCKSTEP_TRY_VOID(
      driver_.check(graphs.steps(), site_of(member_, options_, plan_), plan_.devices, options_.backend_options));
  std::unique_ptr<shards::WeightSource> weights = std::make_unique<shards::RandomWeights>();
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;
  if (plan.checkpoint) {
    LOCKSTEP_TRY(checkpoint, checkpoint::open_model_checkpoint(*plan.checkpoint, plan.spec));
    const checkpoint::ReadAhead* const ahead = member_.group().read_ahead(*plan.checkpoint);
    weights = std::make_unique<shards::CheckpointWeights>(*checkpoint, ahead != nullptr && ahead->is_reading()
                                                                           ? shards::Fetching::kReadAhead
                                                                           : shards::Fetching::kAnnounced);
  }
  std::optional<CountedWeights> counted;
  if (auto* const progress = member_.group().progress(); progress != nullptr && member_.leads()) {
    counted.emplace(*weights, graphs.decode.front(), *progress);
  }
  const shards::WeightSource& source = counted ? static_cast<const shards::WeightSource&>(*counted) : *weights;
  LOCKSTEP_TRY(auto shard,
               shards::Shard::create(std::move(graphs), plan.shard, *loaded_.graphs, communicator_, source));
  loaded_.graphs_expected += shard->graphs().all().size();
  statement_ += statement_of(checkpoint.get(), *shard);
  contents_ += whole_contents(name, *shard);
  if (checkpoint) {
    loaded_.loading.read += Bytes(checkpoint->bytes_read());
    loaded_.loading.files += Bytes(checkpoint->bytes_of_files());
  }
  return shard;
}

/// Puts a drafter around the shard, if the plan has one.
Result<void> Loader::add_drafter(std::unique_ptr<shards::Shard> shard, std::unique_ptr<shards::Shard> draft) {
  loaded_.shard = shard.get();
  std::unique_ptr<shards::Drafter> drafter;
  if (plan_.lookup) drafter = shards::make_lookup_drafter(*shard, *plan_.lookup);
  if (draft) {
    LOCKSTEP_TRY(drafter, shards::make_draft_model(std::move(draft), *shard));
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
  const Result<void> mine = loader.load_all();
  // Ranks that wait inside the backend detect the failure only when this rank ends.
  if (!mine.has_value() && loader.is_awaited()) return mine.error();
  member.phases().enter("agreement");
  LOCKSTEP_TRY_VOID(member.all_succeeded(mine));
  return std::move(loader).agree();
}

Bytes peak_resident() { return process::peak_resident_memory(); }

}  // namespace lockstep::model
