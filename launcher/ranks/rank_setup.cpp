#include "launcher/ranks/rank_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "engine/drivers.h"
#include "launcher/process/differing_communicator.h"
#include "launcher/process/own_environment.h"
#include "launcher/ranks/agreements.h"
#include "launcher/ranks/binding.h"
#include "launcher/ranks/build_id.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/graph/passes.h"
#include "runtime/trace/recorded_communicator.h"
#include "shards/cost/memory.h"
#include "shards/draft_model.h"
#include "shards/group_graphs.h"
#include "shards/lookup_drafter.h"

namespace lockstep::launcher {
namespace {

Result<void> check_budget(const RunOptions& run, const shards::ShardGraphs& graphs) {
  if (!run.memory_budget) return ok();
  const cost::RankMemory memory = cost::memory_of(graphs);
  if (memory.total().value <= *run.memory_budget) return ok();
  return Error{
      ErrorKind::kResourceExhausted,
      fmt::format("[launcher] --memory-budget: found {} ({} of weights, {} of states at full capacity and {} of "
                  "workspace), expected at most {} on a rank; use more ranks, or lower --max-seq-len, "
                  "--batch-size or --prefill-chunk; lockstep plan says what fits",
                  to_string(memory.total()), to_string(memory.weights), to_string(memory.states()),
                  to_string(memory.workspace), to_string(Bytes(*run.memory_budget)))};
}

/// The options of a session of `size` ranks, without the ranks of this process.
actors::SessionOptions session_options(const RankContext& context) {
  const RunOptions& run = context.run;
  actors::SessionOptions options;
  options.size = context.bootstrap.size();
  options.trace.step = context.on_step;
  options.detection = run.peer_detection == Detection::kOn ? actors::PeerDetection::kOn : actors::PeerDetection::kOff;
  options.hello_deadline = duration_of(run.deadline_s);
  options.connect_deadline = duration_of(run.deadline_s);
  return options;
}

/// The driver of the command's backend, which `check_backend` has passed.
const device::BackendDriver& driver_of(const RunOptions& run) { return *engine::find_driver(run.backend).value(); }

/// What the driver is told of this rank.
device::RankSite site_of(const RankContext& context, const Plan& plan) {
  const RunOptions& run = context.run;
  return {.places = plan.places,
          .rank = context.bootstrap.rank(),
          .form = context.shared == nullptr ? device::RankForm::kProcesses : device::RankForm::kThreads,
          .threads = plan.threads,
          .cores = plan.cores,
          .control_address = context.control_plane.address,
          .step_deadline = duration_of(run.deadline_s),
          .degrees = run.strictness == Strictness::kStrict ? device::Degrees::kDocumented : device::Degrees::kAny,
          .build = build_id(),
          .exchange = [&](std::string_view mine) { return context.bootstrap.exchange(mine); },
          .environment = own_variable,
          .set_environment = [](const std::string& name,
                                const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); },
          .log = &context.log,
          .abort = &context.abort,
          .on_stuck = context.on_stuck};
}

actors::LocalRank local_rank(const RankContext& context, int rank) { return {RankId(rank), &context.abort}; }

/// Threads of one process: rank 0 makes the session of all, which replaces the one before.
Result<actors::Session*> open_shared_session(const RankContext& context) {
  transport::Bootstrap& bootstrap = context.bootstrap;
  const auto host = [&]() -> Result<void> {
    if (bootstrap.rank() != 0) return ok();
    actors::SessionOptions options = session_options(context);
    for (int rank = 0; rank < bootstrap.size(); ++rank) options.ranks.push_back(local_rank(context, rank));
    LOCKSTEP_TRY(context.shared->session, actors::Session::host(options));
    return ok();
  };
  LOCKSTEP_TRY_VOID(bootstrap.barrier());  // nobody uses the one before
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, host()));
  return context.shared->session.get();
}

}  // namespace

Duration duration_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

transport::WaitOptions wait_options(const RankContext& context) {
  return {.abort = &context.abort, .clock = &context.clock, .deadline = duration_of(context.run.deadline_s)};
}

Result<void> check_world_size(std::optional<int> tp, int size) {
  if (!tp || *tp == size) return ok();
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[launcher] --tp: found {}, expected {} (the ranks that were started); start as many ranks, or "
                  "leave --tp away",
                  *tp, size)};
}

Result<void> check_backend(const RunOptions& run) {
  LOCKSTEP_TRY(const device::BackendDriver* driver, engine::find_driver(run.backend));
  return driver->check_options(run.backend_options);
}

Result<void> place_ranks(const RankContext& context, Plan& plan) {
  LOCKSTEP_TRY(plan.places, context.bootstrap.places());
  // Cores of a host that belong to other jobs do not idle.
  LOCKSTEP_TRY(const auto told, context.bootstrap.exchange(fmt::format("{}", context.launch.job_cores.value_or(0))));
  plan.placement.launcher = context.launch.launcher;
  for (transport::RankPlace& place : plan.places) {
    const int job_cores = std::stoi(told.at(static_cast<size_t>(place.rank)));
    if (job_cores > 0) place.host_cores = std::min(place.host_cores, job_cores);
    const int threads = context.run.threads.value_or(default_threads(plan.places, place.rank));
    plan.placement.ranks.push_back({.place = place, .threads = threads});
  }
  plan.threads = plan.placement.ranks.at(static_cast<size_t>(context.bootstrap.rank())).threads;
  const bool binds = driver_of(context.run).capabilities().host_threads && context.run.binding == Binding::kOwnCores;
  if (binds) plan.cores = cores_of_threads(plan.placement, context.bootstrap.rank());
  return ok();
}

Result<void> find_places(const RankContext& context, Plan& plan) {
  LOCKSTEP_TRY_VOID(place_ranks(context, plan));
  const std::vector<Finding> findings = judge(plan.placement);
  for (const Finding& finding : findings) {
    const bool is_told = context.bootstrap.rank() == 0 && finding.severity == Severity::kWarning;
    if (is_told) context.log.warning("warning: {}; {}", finding.what, finding.fix);
  }
  LOCKSTEP_TRY_VOID(refuse_fatal(findings));
  LOCKSTEP_TRY(plan.devices, driver_of(context.run).place(site_of(context, plan), context.run.backend_options));
  for (const std::string& warning : plan.devices.warnings) {
    if (context.bootstrap.rank() == 0) context.log.warning("warning: {}", warning);
  }
  for (size_t rank = 0; rank < plan.devices.devices.size(); ++rank) {
    plan.placement.ranks.at(rank).device = plan.devices.devices[rank];
  }
  return ok();
}

Result<void> find_own_head(const RankContext& context, ModelPlan& model) {
  if (!model.spec.tied_embeddings || !model.checkpoint) return ok();
  const int64_t rows = model.spec.vocabulary, rank = context.bootstrap.rank(), ranks = context.bootstrap.size();
  const Result<bool> mine =
      checkpoint::holds_own_head(*model.checkpoint, model.spec, {rows * rank / ranks, rows * (rank + 1) / ranks});
  LOCKSTEP_TRY_VOID(all_succeeded(context.bootstrap, mine.has_value() ? Result<void>(ok()) : mine.error()));
  constexpr std::string_view kDiffers = "differs";
  LOCKSTEP_TRY(const std::vector<std::string> found, context.bootstrap.exchange(mine.value() ? kDiffers : "equal"));
  if (std::ranges::find(found, kDiffers) == found.end()) return ok();
  if (rank == 0) {
    context.log.warning(
        "warning: config.json ties the head to the embedding, but {} holds another lm_head.weight, which "
        "is used; set tie_word_embeddings to false",
        model.checkpoint->string());
  }
  model.spec.tied_embeddings = false;
  LOCKSTEP_TRY(model.partition,
               partition::make_partition(model.spec, context.bootstrap.size(), model.partition.expert_split,
                                         model.partition.numerics, model.partition.gqa));
  return ok();
}

Result<ChosenCommunicator> connect(const RankContext& context, const Plan& plan) {
  const auto threads = context.shared == nullptr ? nullptr : context.shared->group;
  LOCKSTEP_TRY(ChosenCommunicator chosen, make_communicator(context.run.communicator, context.bootstrap, context.mpi,
                                                            threads, plan.places, wait_options(context)));
  if (!chosen.communicator) return chosen;
  if (context.faults.may_differ()) {
    chosen.communicator = std::make_unique<DifferingCommunicator>(
        std::move(chosen.communicator), [&faults = context.faults] { return faults.take_difference(); });
  }
  chosen.communicator = std::make_unique<trace::RecordedCommunicator>(std::move(chosen.communicator), context.recorder);
  return chosen;
}

namespace {

/// A shard and the checkpoint that it was read from.
struct LoadedShard {
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;  // null: random weights
  std::unique_ptr<shards::Shard> shard;
};

/// The rank's graphs as `backend` wants them: after the passes, or before them and with those of all ranks.
Result<shards::ShardGraphs> build_graphs_for(const device::Backend& backend, const ModelPlan& plan, int rank) {
  const bool whole_group = backend.capabilities().whole_group;
  LOCKSTEP_TRY(auto graphs, shards::build_graphs(plan.spec, plan.partition, rank, plan.shard,
                                                 whole_group ? std::vector<graph::Pass>() : graph::default_passes()));
  if (!whole_group) return graphs;
  LOCKSTEP_TRY(graphs.group, graphs_of_group(plan.spec, plan.partition, plan.shard));
  return graphs;
}

Result<LoadedShard> load_shard(const RankContext& context, const ModelPlan& plan, device::Backend& backend,
                               device::Communicator* communicator) {
  LoadedShard loaded;
  LOCKSTEP_TRY(auto graphs, build_graphs_for(backend, plan, context.bootstrap.rank()));
  LOCKSTEP_TRY_VOID(check_budget(context.run, graphs));
  LOCKSTEP_TRY_VOID(driver_of(context.run).check(graphs.steps(), context.run.backend_options));
  std::unique_ptr<shards::WeightSource> weights = std::make_unique<shards::RandomWeights>();
  if (plan.checkpoint) {
    LOCKSTEP_TRY(loaded.checkpoint, checkpoint::open_model_checkpoint(*plan.checkpoint, plan.spec));
    const bool is_read_ahead = context.read_ahead != nullptr && context.read_ahead->is_reading();
    weights = std::make_unique<shards::CheckpointWeights>(
        *loaded.checkpoint, is_read_ahead ? shards::Fetching::kReadAhead : shards::Fetching::kAnnounced);
  }
  LOCKSTEP_TRY(loaded.shard, shards::Shard::create(std::move(graphs), plan.shard, backend, communicator, *weights));
  return loaded;
}

/// Puts a drafter around the shard, if the plan has one.
Result<void> add_drafter(const Plan& plan, std::unique_ptr<shards::Shard> shard, std::unique_ptr<shards::Shard> draft,
                         LoadedModel& loaded) {
  loaded.shard = shard.get();
  std::unique_ptr<shards::Drafter> drafter;
  if (plan.lookup) drafter = shards::make_lookup_drafter(*shard, *plan.lookup);
  if (draft) {
    LOCKSTEP_TRY(drafter, shards::make_draft_model(std::move(draft), *shard));
  }
  if (!drafter) {
    loaded.engine = std::move(shard);
    return ok();
  }
  auto engine = std::make_unique<shards::SpeculativeEngine>(std::move(shard), std::move(drafter));
  loaded.speculative = engine.get();
  loaded.engine = std::move(engine);
  return ok();
}

}  // namespace

Result<LoadedModel> load_model(const RankContext& context, const Plan& plan, device::Communicator* communicator) {
  LoadedModel loaded;
  std::string statement, contents;
  const auto locally = [&]() -> Result<void> {
    const BoundThread bound(plan.cores);  // memory comes from where it is first written
    LOCKSTEP_TRY(loaded.backend,
                 driver_of(context.run).make(site_of(context, plan), plan.devices, context.run.backend_options));
    loaded.graphs = std::make_unique<device::GraphRegister>(
        *loaded.backend, context.run.strictness == Strictness::kStrict ? device::GraphRegister::AfterClose::kRefuse
                                                                       : device::GraphRegister::AfterClose::kCount);
    loaded.graphs->before_compile([&] { context.phases.enter("compile"); });
    const auto load = [&](std::string_view name, const ModelPlan& model) -> Result<std::unique_ptr<shards::Shard>> {
      context.phases.enter("load");
      LOCKSTEP_TRY(LoadedShard made, load_shard(context, model, *loaded.graphs, communicator));
      loaded.graphs_expected += made.shard->graphs().all().size();
      statement += statement_after_weights(made.checkpoint.get(), *made.shard);
      contents += whole_contents(name, *made.shard);
      if (made.checkpoint) {
        loaded.loading.read += Bytes(made.checkpoint->bytes_read());
        loaded.loading.files += Bytes(made.checkpoint->bytes_of_files());
      }
      return std::move(made.shard);
    };
    LOCKSTEP_TRY(std::unique_ptr<shards::Shard> shard, load("the model", plan.model));
    std::unique_ptr<shards::Shard> draft;
    if (plan.draft) {
      LOCKSTEP_TRY(draft, load("the draft model", *plan.draft));
    }
    return add_drafter(plan, std::move(shard), std::move(draft), loaded);
  };
  const Result<void> mine = locally();
  // Ranks that compile and load together may wait for this one there: its end is told by its leaving.
  if (!mine.has_value() && loaded.backend && loaded.backend->capabilities().whole_group) return mine.error();
  context.phases.enter("agreement");
  LOCKSTEP_TRY_VOID(all_succeeded(context.bootstrap, mine));
  loaded.graphs->close();
  loaded.loading.peak = peak_resident();
  if (context.read_ahead != nullptr) loaded.loading.ahead = context.read_ahead->bytes_read();
  LOCKSTEP_TRY(const std::string common, common_contents(context.bootstrap, contents));
  LOCKSTEP_TRY_VOID(transport::agree(context.bootstrap, "graphs and weights", statement + common));
  return loaded;
}

Result<actors::Session*> open_session(const RankContext& context, std::unique_ptr<actors::Session>& own) {
  if (context.shared != nullptr) return open_shared_session(context);
  transport::Bootstrap& bootstrap = context.bootstrap;
  actors::SessionOptions options = session_options(context);
  options.ranks = {local_rank(context, bootstrap.rank())};
  const ControlPlane& plane = context.control_plane;
  options.bind_address = plane.address;
  options.connect_deadline /= 2;  // a rank that cannot reach rank 0 says so before the others stop waiting for it
  actors::Address address;
  const auto host = [&]() -> Result<void> {
    if (bootstrap.rank() != 0) return ok();
    LOCKSTEP_TRY(own, actors::Session::host(options));
    address = own->address();
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, host()));
  LOCKSTEP_TRY(const auto told, bootstrap.exchange(fmt::format("{} {}", address.host, address.port)));
  const auto join = [&]() -> Result<void> {
    if (bootstrap.rank() == 0) return ok();
    const size_t space = told[0].rfind(' ');
    const actors::Address coordinator{told[0].substr(0, space),
                                      static_cast<uint16_t>(std::stoi(told[0].substr(space + 1)))};
    LOCKSTEP_TRY_VOID(check_reach(plane, bootstrap.rank(), coordinator, options.connect_deadline));
    LOCKSTEP_TRY(own, actors::Session::join(options, coordinator));
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, join()));
  return own.get();
}

Result<void> run_session(const RankContext& context, const Plan& plan, RankMonitor& monitor, actors::Session& session,
                         shards::StepEngine& engine, const std::function<void()>& submit) {
  const RankId rank(context.bootstrap.rank());
  monitor.watch(&session, rank);
  if (rank.value == 0) submit();
  const Result<void> ended = [&] {
    const BoundThread bound(plan.cores);
    return session.run_executor(rank, engine);
  }();
  if (!ended.has_value()) context.on_failure(ended.error());
  monitor.forget();
  return ended;
}

namespace {

/// "4 ranks on 2 hosts, started by srun: mpi (Open MPI 4.1.4, threads serialized)".
std::string launch_line(const RankContext& context, const Placement& placement) {
  const auto counted = [](int count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  const std::string by = placement.launcher == transport::Launcher::kNone
                             ? ""
                             : fmt::format(", started by {}", transport::to_string(placement.launcher));
  return fmt::format("{} on {}{}: {}", counted(context.bootstrap.size(), "rank"), counted(placement.hosts(), "host"),
                     by, context.bootstrap.name());
}

}  // namespace

void log_plan(const RankContext& context, const Plan& plan, const ChosenCommunicator& chosen) {
  if (context.bootstrap.rank() != 0) return;
  const Log& log = context.log;
  log.info("{}", launch_line(context, plan.placement));
  log.info("where the ranks are:\n{}\n", rank_table(plan.placement));
  const ModelPlan& model = plan.model;
  if (model.partition.ranks() > 1) log.info("partition:\n{}", partition::to_text(model.spec, model.partition));
  for (const std::string& note : chosen.notes) log.warning("{}", note);
  for (const transport::Choice& choice : chosen.choices) {
    log.info("messages up to {} go by {} ({:.1f} us)", to_string(Bytes(choice.bytes)), choice.name,
             choice.microseconds);
  }
  log.info("{} slots of {} tokens, prefill chunks of {} rows, {}, {} threads a rank{}", model.shard.slots,
           model.shard.capacity, model.shard.chunk, to_string(model.shard.dtype), plan.threads,
           plan.cores.empty() ? "" : ", each bound to a core");
  if (model.shard.drafts > 0) {
    log.info("{} tokens are drafted a step by {}", model.shard.drafts,
             plan.draft ? plan.draft->checkpoint->string() : "looking them up in the row's own past");
  }
}

std::string phases_line(const Phases& phases) {
  std::string line = "ready:";
  for (const auto& [name, s] : phases.seconds()) line += fmt::format(" {} {:.2f} s,", name, s);
  line.pop_back();
  return line;
}

void RankMonitor::watch(actors::Session* session, RankId rank) {
  std::lock_guard lock(mutex_);
  session_ = session;
  rank_ = rank;
}

void RankMonitor::forget() {
  std::lock_guard lock(mutex_);
  session_ = nullptr;
}

bool RankMonitor::cancel() {
  std::lock_guard lock(mutex_);
  if (session_ == nullptr) return false;
  session_->cancel();
  return true;
}

std::optional<actors::ExecutorStatus> RankMonitor::executor_status() const {
  std::lock_guard lock(mutex_);
  if (session_ == nullptr) return std::nullopt;
  return session_->status(rank_);
}

}  // namespace lockstep::launcher
