// What every command that runs a model does on each rank before the first token, in pieces: plan, weights, session.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/session.h"
#include "launcher/cli/command_line.h"
#include "launcher/process/fault.h"
#include "launcher/ranks/control_plane.h"
#include "launcher/ranks/phases.h"
#include "launcher/ranks/placement.h"
#include "launcher/ranks/rank_memory.h"
#include "launcher/ranks/wiring.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/checkpoint/read_ahead.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/log.h"
#include "runtime/device/backend_driver.h"
#include "runtime/device/graph_register.h"
#include "runtime/generation/prompt_lookup.h"
#include "runtime/trace/flight_recorder.h"
#include "shards/partition/partition.h"
#include "shards/shard.h"
#include "shards/speculative_engine.h"
#include "transport/bootstrap.h"
#include "transport/loopback/loopback.h"

namespace lockstep::launcher {

/// What ranks that are threads of one process share.
struct SharedRanks {
  std::shared_ptr<transport::loopback::Group> group;  // shared as transport/loopback asks
  std::unique_ptr<actors::Session> session;           // rank 0 makes it
};

/// What a rank is given. Everything is borrowed.
struct RankContext {
  const RunOptions& run;
  transport::Bootstrap& bootstrap;
  transport::mpi::World* mpi = nullptr;               // null where ranks are threads, or one
  SharedRanks* shared = nullptr;                      // null between processes
  transport::LaunchEnvironment launch = {};           // what the launcher says of this process
  ControlPlane control_plane = {};                    // between processes
  const checkpoint::ReadAhead* read_ahead = nullptr;  // of the model's weights; null where there is none
  AbortFlag& abort;
  const Clock& clock;
  const Log& log;
  Phases& phases;
  trace::FlightRecorder& recorder;
  std::function<void(const Error&)> on_failure;  // called at once when the executor fails, before anything may wait
  /// Ends the process: the rank's thread is in a call that does not return. Called on another thread; empty where ranks
  /// are threads.
  std::function<void(const Error&)> on_stuck = {};
  std::function<void(RankId, const actors::ExecutorStatus&)> on_step;  // before each step of a rank of this process
  Faults& faults;

  /// The same with another bootstrap. References cannot be set anew, so it names every field: a new one, too.
  RankContext with(transport::Bootstrap& other) const {
    return {.run = run,
            .bootstrap = other,
            .mpi = mpi,
            .shared = shared,
            .launch = launch,
            .control_plane = control_plane,
            .read_ahead = read_ahead,
            .abort = abort,
            .clock = clock,
            .log = log,
            .phases = phases,
            .recorder = recorder,
            .on_failure = on_failure,
            .on_stuck = on_stuck,
            .on_step = on_step,
            .faults = faults};
  }
};

/// What the outside may ask of a running rank: for exit records and Ctrl-C. Thread-safe.
class RankMonitor {
 public:
  void watch(actors::Session* session, RankId rank);
  /// Call before the session is destroyed.
  void forget();

  /// Asks the session to end, if there is one; returns whether there was.
  bool cancel();
  /// What the rank's executor is doing; empty while there is no session.
  std::optional<actors::ExecutorStatus> executor_status() const;

 private:
  mutable std::mutex mutex_;
  actors::Session* session_ = nullptr;
  RankId rank_;
};

/// One model, divided and sized: made before weights are read.
struct ModelPlan {
  checkpoint::ModelSpec spec;
  partition::Partition partition;
  shards::ShardOptions shard;
  std::optional<std::filesystem::path> checkpoint;  // the model's directory; empty: weights are random
};

/// What this rank runs, and where it is.
struct Plan {
  ModelPlan model;
  std::optional<ModelPlan> draft;                  // a model that drafts for it
  std::optional<generation::PromptLookup> lookup;  // or what drafts without one
  std::vector<transport::RankPlace> places;
  Placement placement;  // the same with threads and devices
  device::DevicePlan devices;
  int threads = 1;
  std::vector<int> cores;  // that these are bound to, one each; empty: not bound
};

/// What keeps a loaded model alive; each member uses those before it.
struct LoadedModel {
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<device::GraphRegister> graphs;
  std::unique_ptr<shards::StepEngine> engine;        // the shard, or a speculative engine around it
  shards::Shard* shard = nullptr;                    // in the engine
  shards::SpeculativeEngine* speculative = nullptr;  // the engine, where tokens are drafted
  size_t graphs_expected = 0;                        // of the model and of its draft model
  LoadingCost loading;                               // memory until now, and what was read
};

Duration duration_of(double seconds);

transport::WaitOptions wait_options(const RankContext& context);

/// Refuses a --tp that is not the number of ranks.
Result<void> check_world_size(std::optional<int> tp, int size);

/// Refuses a backend that is not there, and options of it that make no sense.
Result<void> check_backend(const RunOptions& run);

/// Where the ranks are and how many threads each has: the facts, nothing judged. @collective @blocking
Result<void> place_ranks(const RankContext& context, Plan& plan);

/// Where the ranks are and how many threads this one has. Rank 0 warns of what costs speed; fails with
/// `kFailedPrecondition` for a placement that cannot work. @collective @blocking
Result<void> find_places(const RankContext& context, Plan& plan);

/// Unties a model whose files hold a head of its own beside the embedding, and divides it again. Each rank compares its
/// share of the rows, so that all decide alike. Call when config and options are agreed on. @collective @blocking
Result<void> find_own_head(const RankContext& context, ModelPlan& model);

/// The communicator of the command's options. @collective @blocking
Result<ChosenCommunicator> connect(const RankContext& context, const Plan& plan);

/// Weights and executables of this rank, agreed with the others. @collective @blocking
Result<LoadedModel> load_model(const RankContext& context, const Plan& plan, device::Communicator* communicator);

/// The session of this rank's process: kept in `own` between processes, in the context's `shared` between threads.
/// @collective @blocking
Result<actors::Session*> open_session(const RankContext& context, std::unique_ptr<actors::Session>& own);

/// Runs the session's steps until it ends; rank 0 calls `submit` before. @collective @blocking
Result<void> run_session(const RankContext& context, const Plan& plan, RankMonitor& monitor, actors::Session& session,
                         shards::StepEngine& engine, const std::function<void()>& submit);

/// Logs where ranks are, who owns what and how messages go; on rank 0.
void log_plan(const RankContext& context, const Plan& plan, const ChosenCommunicator& chosen);

/// "ready: plan 0.01 s, load 0.50 s".
std::string phases_line(const Phases& phases);

}  // namespace lockstep::launcher
