#include "actors/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <caf/io/all.hpp>
#include <chrono>
#include <mutex>
#include <set>
#include <utility>

#include "actors/activity_record.h"
#include "actors/completion_event.h"
#include "actors/coordinator.h"
#include "actors/host_choosers.h"
#include "actors/protocol.h"
#include "actors/rank_connections.h"
#include "actors/shard_actor.h"
#include "runtime/core/check.h"

namespace lockstep::actors {
namespace {

constexpr size_t kLeastSecret = 32;

Error invalid(std::string_view field, std::string_view what) {
  return {ErrorKind::kInvalidArgument, fmt::format("[actors] session option {}: {}", field, what)};
}

Error left_alone(RankId rank, Duration patience) {
  return {ErrorKind::kDeadlineExceeded,
          fmt::format("[actors] rank {}: found no word on the session's end within {:.3g} s after its last step, "
                      "expected all ranks to end together; look at the other ranks' logs",
                      rank, to_seconds(patience)),
          rank.value};
}

/// CAF's configuration for a session. Work sharing wakes a thread at once and does not poll, which would take time from
/// ranks that share cores with it. Two threads, so that a slow sink (client code) does not delay the shards. A detached
/// coordinator would also do, but CAF 0.17 then waits at the end for every reference to it, and its network broker may
/// keep one.
struct ActorConfig : caf::actor_system_config {
  explicit ActorConfig(const SessionOptions& options) {
    load<caf::io::middleman>();
    add_message_types<caf::id_block::lockstep>();
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", size_t{2});
    set("middleman.heartbeat-interval", caf::timespan{options.heartbeat});
    set("middleman.connection-timeout", caf::timespan{options.silence});
  }
};

/// The state of one local rank.
struct LocalRankState {
  LocalRank local;
  ScheduleQueue queue;
  CompletionEvent closed;
  LocalShard shard;
  mutable std::mutex mutex;     // guards the two below
  Executor* running = nullptr;  // during `run_executor`
  ExecutorStatus last;          // after it
};

}  // namespace

Result<void> SessionOptions::validate() const {
  if (size < 1) return invalid("size", fmt::format("found {}, expected at least 1", size));
  if (ranks.empty()) return invalid("ranks", "found none, expected the ranks of this process");
  std::set<RankId> seen;
  for (const LocalRank& local : ranks) {
    const bool in_group = local.rank.value >= 0 && local.rank.value < size;
    if (!in_group || !seen.insert(local.rank).second) {
      return invalid("ranks", fmt::format("found rank {}, expected different ranks below {}", local.rank, size));
    }
    if (local.abort == nullptr) return invalid("ranks", fmt::format("rank {} has no abort flag", local.rank));
  }
  if (std::ssize(ranks) < size && secret.size() < kLeastSecret) {
    return invalid("secret", fmt::format("found {} characters, expected at least {} between processes", secret.size(),
                                         kLeastSecret));
  }
  if (decode_steps < 1) return invalid("decode_steps", fmt::format("found {}, expected at least 1", decode_steps));
  if (prefill_steps < 1) return invalid("prefill_steps", fmt::format("found {}, expected at least 1", prefill_steps));
  if (in_flight < 1) return invalid("in_flight", fmt::format("found {}, expected at least 1", in_flight));
  if (chunk_budget && *chunk_budget < Duration::zero()) {
    return invalid("chunk_budget", fmt::format("found {} s, expected none or more", to_seconds(*chunk_budget)));
  }
  if (hand_on_period < Duration::zero()) {
    return invalid("hand_on_period", fmt::format("found {} s, expected none or more", to_seconds(hand_on_period)));
  }
  if ((heartbeat > Duration::zero()) != (silence > Duration::zero()) || silence < 5 * heartbeat) {
    return invalid("silence", "expected both heartbeat and silence or neither, and silence of 5 heartbeats or more");
  }
  return ok();
}

class Session::Impl {
 public:
  explicit Impl(SessionOptions options) : options_(std::move(options)), config_(options_), system_(config_) {
    for (const LocalRank& local : options_.ranks) {
      auto state = std::make_unique<LocalRankState>();
      state->local = local;
      ranks_.push_back(std::move(state));
    }
  }

  /// Each actor leaves at its next message; CAF waits for that. Peers detect it by the closed connection.
  ~Impl() {
    if (coordinator_) caf::anon_send(coordinator_, quit_atom::value);
    for (const auto& state : ranks_) {
      if (state->shard) caf::anon_send(std::exchange(state->shard, nullptr), quit_atom::value);
    }
    coordinator_ = nullptr;
  }

  Result<void> host();
  Result<void> join(const Address& coordinator);
  Result<void> run_executor(RankId rank, shards::StepEngine& engine);
  Result<void> execute(LocalRankState& state, shards::StepEngine& engine);
  Result<void> leave(LocalRankState& state, Result<void> ran);
  bool wait_for_end(LocalRankState& state) const;
  void cancel();
  void fail(const Error& error);
  void end(LocalRankState& state, const Error& error);

  ExecutorStatus status(RankId rank) const {
    const LocalRankState& state = at(rank);
    std::lock_guard lock(state.mutex);
    return state.running ? state.running->status() : state.last;
  }

  const Address& address() const { return address_; }
  trace::Activity activity(size_t most_steps) const { return activity_.read(most_steps); }

  const LocalCoordinator& coordinator() const {
    LOCKSTEP_CHECK(coordinator_);
    return coordinator_;
  }

 private:
  LocalRankState& at(RankId rank) const {
    for (const auto& state : ranks_) {
      if (state->local.rank == rank) return *state;
    }
    LOCKSTEP_CHECK(false && "not a rank of this process", rank);
    return *ranks_.front();
  }

  void spawn_shards(const CoordinatorHandle& coordinator);
  void request_stop(SlotId slot);
  ExecutorHooks hooks(const LocalRankState& state);
  PlannerLimits limits(const shards::StepEngine& engine) const;

  const SessionOptions options_;
  Address address_;
  // Shared with actors, and therefore declared before the actor system, whose destructor waits for them.
  std::vector<std::unique_ptr<LocalRankState>> ranks_;
  HostChoosers choosers_;
  CompletionEvent over_;
  ActivityRecord activity_;
  std::mutex engine_mutex_;
  shards::StepEngine* stoppable_engine_ = nullptr;  // rank 0's, while it runs
  ActorConfig config_;
  caf::actor_system system_;
  RankConnections connections_{system_};
  LocalCoordinator coordinator_;  // empty without a local rank 0
};

Result<void> Session::Impl::host() {
  CoordinatorPorts ports{.size = options_.size,
                         .in_flight = options_.in_flight,
                         .chunk_budget = options_.chunk_budget,
                         .hello_deadline = options_.hello_deadline,
                         .detection = options_.detection,
                         .choosers = &choosers_,
                         .over = &over_,
                         .activity = &activity_,
                         .request_stop = [this](SlotId slot) { request_stop(slot); },
                         .on_refused = options_.on_refused,
                         .operation = [this] { return to_string(status(RankId(0))); }};
  coordinator_ = system_.spawn(coordinator_actor, std::move(ports));
  address_.host = options_.bind_address;
  if (std::ssize(options_.ranks) < options_.size) {
    LOCKSTEP_TRY(address_.port, connections_.listen(options_, coordinator_));
  }
  spawn_shards(coordinator_);
  return ok();
}

Result<void> Session::Impl::join(const Address& address) {
  address_ = address;
  LOCKSTEP_TRY(const CoordinatorHandle remote, connections_.connect(options_, options_.ranks.front().rank, address));
  spawn_shards(remote);
  return ok();
}

void Session::Impl::spawn_shards(const CoordinatorHandle& coordinator) {
  for (const auto& state : ranks_) {
    const ShardPorts ports{.rank = state->local.rank.value,
                           .size = options_.size,
                           .queue = &state->queue,
                           .abort = state->local.abort,
                           .gate = &state->closed,
                           .detection = options_.detection,
                           .trace = options_.trace.schedule,
                           .on_refused = options_.on_refused};
    state->shard = system_.spawn(shard_actor, ports, coordinator);
  }
}

Result<void> Session::Impl::run_executor(RankId rank, shards::StepEngine& engine) {
  LocalRankState& state = at(rank);
  const bool decides = rank == RankId(0);
  if (decides) {
    {
      std::lock_guard lock(engine_mutex_);
      stoppable_engine_ = &engine;
    }
    caf::anon_send(coordinator(), begin_atom::value, limits(engine));
  }
  Result<void> ran = execute(state, engine);
  if (decides) {
    std::lock_guard lock(engine_mutex_);
    stoppable_engine_ = nullptr;
  }
  return leave(state, std::move(ran));
}

Result<void> Session::Impl::execute(LocalRankState& state, shards::StepEngine& engine) {
  Executor executor(state.local.rank, engine, state.queue, *state.local.abort, hooks(state), options_.idle,
                    options_.hand_on_period);
  {
    std::lock_guard lock(state.mutex);
    state.running = &executor;
  }
  Result<void> ran = executor.run();
  std::lock_guard lock(state.mutex);
  state.last = executor.status();
  state.running = nullptr;
  return ran;
}

/// Reports a failure, then waits for the end of the session, so that no rank takes a leaving rank for a lost one. Rank
/// 0 leaves last.
Result<void> Session::Impl::leave(LocalRankState& state, Result<void> ran) {
  if (!ran.has_value()) {
    state.local.abort->raise(ran.error());
    caf::anon_send(state.shard, failed_atom::value, to_wire(ran.error()));
  }
  const bool was_told = wait_for_end(state);
  const bool has_failed = state.local.abort->is_raised();
  if (was_told && state.local.rank == RankId(0)) over_.wait(options_.leave_deadline);
  if (const auto error = state.closed.error()) return *error;
  if (!ran.has_value()) return ran;
  if (!was_told) return left_alone(state.local.rank, has_failed ? options_.leave_deadline : options_.end_deadline);
  return ok();
}

/// Whether the rank was told of the session's end. It is patient with slow ranks, but not in a group that has failed.
bool Session::Impl::wait_for_end(LocalRankState& state) const {
  constexpr Duration kLook = std::chrono::milliseconds(50);
  const AbortFlag& abort = *state.local.abort;
  for (Duration waited{}; waited < options_.end_deadline && !abort.is_raised(); waited += kLook) {
    if (state.closed.wait(std::min(kLook, options_.end_deadline))) return true;
  }
  return abort.is_raised() ? state.closed.wait(options_.leave_deadline) : state.closed.is_open();
}

void Session::Impl::cancel() {
  for (const auto& state : ranks_) {
    end(*state, {ErrorKind::kCancelled, fmt::format("[actors] rank {}: cancelled", state->local.rank),
                 state->local.rank.value});
  }
}

void Session::Impl::fail(const Error& error) {
  for (const auto& state : ranks_) end(*state, error);
}

void Session::Impl::end(LocalRankState& state, const Error& error) {
  if (state.closed.is_open()) return;
  state.local.abort->raise(error);
  caf::anon_send(state.shard, failed_atom::value, to_wire(error));
}

void Session::Impl::request_stop(SlotId slot) {
  std::lock_guard lock(engine_mutex_);
  if (stoppable_engine_ != nullptr) stoppable_engine_->request_stop(slot);
}

ExecutorHooks Session::Impl::hooks(const LocalRankState& state) {
  ExecutorHooks hooks;
  hooks.done = [shard = state.shard](const ScheduleDone& done) { caf::anon_send(shard, done_atom::value, done); };
  if (options_.trace.step) {
    hooks.step = [this, rank = state.local.rank](const ExecutorStatus& status) { options_.trace.step(rank, status); };
  }
  if (state.local.rank == RankId(0)) {
    hooks.released = [coordinator = coordinator_](std::vector<StepResult> results) {
      caf::anon_send(coordinator, results_atom::value, Released{std::move(results)});
    };
    hooks.stepped = [this](const EndedStep& step) { activity_.note(step); };
    hooks.decide = [this](const Schedule& schedule, std::span<const uint8_t> with_logits,
                          const shards::StepOutput& output, shards::Decision& decision) {
      return choosers_.decide(schedule.host_chosen, with_logits, output, decision);
    };
  }
  return hooks;
}

PlannerLimits Session::Impl::limits(const shards::StepEngine& engine) const {
  return {.slots = engine.slots(),
          .chunk = engine.chunk(),
          .capacity = engine.capacity(),
          .rows_of_one_slot = engine.rows_of_one_slot(),
          .decode_steps = options_.decode_steps,
          .prefill_steps = options_.prefill_steps,
          .score_rows = engine.score_rows(),
          .embedding_size = engine.embedding_size(),
          .tokens_per_step = engine.tokens_per_step(),
          .long_rope_after = engine.long_rope_after(),
          .chunk_sizes = engine.chunk_sizes(),
          .kept = options_.keeps_prefixes ? engine.kept_tokens() : shards::KeptTokens{}};
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::host(SessionOptions options) {
  LOCKSTEP_TRY_VOID(options.validate());
  if (std::ranges::none_of(options.ranks, [](const LocalRank& local) { return local.rank == RankId(0); })) {
    return invalid("ranks", "expected rank 0 in the process that hosts the session");
  }
  auto impl = std::make_unique<Impl>(std::move(options));
  LOCKSTEP_TRY_VOID(impl->host());
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Result<std::unique_ptr<Session>> Session::join(SessionOptions options, const Address& coordinator) {
  LOCKSTEP_TRY_VOID(options.validate());
  if (std::ranges::any_of(options.ranks, [](const LocalRank& local) { return local.rank == RankId(0); })) {
    return invalid("ranks", "expected rank 0 only in the process that hosts the session");
  }
  auto impl = std::make_unique<Impl>(std::move(options));
  LOCKSTEP_TRY_VOID(impl->join(coordinator));
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

const Address& Session::address() const { return impl_->address(); }

Result<void> Session::run_executor(RankId rank, shards::StepEngine& engine) {
  return impl_->run_executor(rank, engine);
}

ExecutorStatus Session::status(RankId rank) const { return impl_->status(rank); }

trace::Activity Session::activity(size_t most_steps) const { return impl_->activity(most_steps); }

void Session::cancel() { impl_->cancel(); }

void Session::fail(const Error& error) { impl_->fail(error); }

void Session::submit(Request request, Sink& sink) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  submit(std::move(requests), sink);
}

void Session::submit(std::vector<Request> requests, Sink& sink) {
  caf::anon_send(impl_->coordinator(), submit_atom::value, Submission{std::move(requests), &sink});
}

void Session::stop(RequestId request) { caf::anon_send(impl_->coordinator(), stop_atom::value, request.value); }

void Session::finish() { caf::anon_send(impl_->coordinator(), finish_atom::value); }

}  // namespace lockstep::actors
