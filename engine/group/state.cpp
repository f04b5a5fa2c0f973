#include "engine/group/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/group/agreement.h"
#include "engine/group/environment.h"
#include "engine/group/host.h"
#include "engine/group/mpi_meeting.h"
#include "runtime/core/guard.h"
#include "runtime/core/machine_memory.h"

namespace lockstep::group {
namespace {

/// By what the launcher says before MPI starts; the meeting checks it where the launcher does not say how many ranks
/// there are.
Result<Replica> replica_of(const transport::LaunchEnvironment& launch, int ranks_per_replica) {
  if (ranks_per_replica == 0) return Replica();
  return find_replica(launch.rank, launch.size.value_or((launch.rank / ranks_per_replica + 2) * ranks_per_replica),
                      ranks_per_replica);
}

template <typename Value>
Result<Value> named(Result<Value> done, const Replica& replica) {
  if (done.has_value()) return done;
  return from_launch_ranks(done.error(), replica);
}

}  // namespace

State::State(GroupOptions options, Hooks hooks, transport::LaunchEnvironment launch, const Replica& replica)
    : options_(for_launch_ranks(std::move(options), replica)),
      hooks_(for_launch_ranks(std::move(hooks), replica)),
      launch_(std::move(launch)) {
  siblings_.replica = replica;
  phases_ = std::make_unique<RunPhases>(clock_, [this](const char* phase) {
    for (int rank = first_rank_; hooks_.on_phase && rank < first_rank_ + local_ranks_; ++rank) {
      hooks_.on_phase(rank, phase);
    }
  });
  for (const auto& [name, seconds] : hooks_.phases_before) phases_->add_before(name, seconds);
  if (hooks_.on_group) hooks_.on_group(this);
}

State::~State() {
  if (hooks_.on_group) hooks_.on_group(nullptr);
  if (meeting_ == nullptr || failure()) return;
  meeting_->tell(
      {ErrorKind::kPeerLost,
       fmt::format("[engine/group] rank {} has left: found its group destroyed before Group::leave, expected "
                   "the ranks to leave together",
                   first_rank_),
       first_rank_});
}

void State::set_ranks(int first, int local, int size) {
  first_rank_ = first;
  local_ranks_ = local;
  size_ = size;
  if (options_.on_progress && first == 0) progress_ = std::make_unique<ProgressReporter>(options_.on_progress);
  logs_.clear();
  for (int rank = first; rank < first + local; ++rank) {
    Log::Sink sink;
    if (options_.log) {
      sink = [this, rank](LogLevel level, std::string_view line) { options_.log(rank, level, line); };
    }
    logs_.push_back(std::make_unique<Log>(std::move(sink)));
  }
}

void State::warn(int rank, std::string_view line) const {
  if (options_.log) options_.log(rank, LogLevel::kWarning, line);
}

Result<std::unique_ptr<State>> State::of_threads(int size, GroupOptions options, Hooks hooks,
                                                 transport::LaunchEnvironment launch) {
  std::unique_ptr<State> state(new State(std::move(options), std::move(hooks), std::move(launch)));
  state->set_ranks(/*first=*/0, /*local=*/size, size);
  state->start_reading_ahead();
  const Result<void> begun = guarded("engine/group", [&]() -> Result<void> {
    state->phases_->enter("bootstrap");
    return ok();
  });
  if (!begun.has_value()) return state->fail(0, begun.error());
  if (size > 1) state->threads_ = transport::loopback::make_group(size);
  state->own_bootstrap_ = transport::make_single_bootstrap();  // one process needs no agreement
  state->name_ = size > 1 ? "threads" : state->own_bootstrap_->name();
  state->phases_->close();
  return state;
}

/// Reads nothing on a host that needs, or may need, only a part of the weights. Half of the free memory stays available
/// for the packed weights.
void State::start_reading_ahead() {
  const bool is_one_host = launch_.size && launch_.local_size == launch_.size && launch_.local_rank;
  if (options_.read_ahead.empty() || !is_one_host) return;
  const checkpoint::ReadAhead::Share share{.index = *launch_.local_rank, .of = *launch_.local_size};
  read_ahead_ =
      std::make_unique<checkpoint::ReadAhead>(options_.read_ahead, share, Bytes(available_memory().value / 2));
}

const checkpoint::ReadAhead* State::read_ahead(const std::filesystem::path& model) const {
  return model == options_.read_ahead ? read_ahead_.get() : nullptr;
}

Result<void> State::meet(std::unique_ptr<ProcessMeeting> meeting) {
  {
    const std::lock_guard lock(meeting_mutex_);
    meeting_ = std::move(meeting);
  }
  const Result<void> met = guarded("engine/group", [&]() -> Result<void> {
    LOCKSTEP_TRY(own_bootstrap_, meeting_->open());
    set_ranks(meeting_->rank(), /*local=*/1, meeting_->size());
    name_ = own_bootstrap_->name();
    return ok();
  });
  phases_->close();
  if (!met.has_value()) return fail(first_rank_, met.error());
  return ok();
}

Result<std::unique_ptr<State>> State::of_launch(transport::LaunchEnvironment launch, GroupOptions options,
                                                Hooks hooks) {
  LOCKSTEP_TRY(const Replica replica, replica_of(launch, options.ranks_per_replica));
  if (launch.launcher == transport::Launcher::kLockstep) {
    if (replica.has_others()) {
      return Error{ErrorKind::kFailedPrecondition,
                   fmt::format("[engine/group] cannot make replicas of {} ranks: found {} that lockstep has started as "
                               "one group, expected those of mpirun or srun; start the program with one of them",
                               options.ranks_per_replica, launch.size.value_or(1))};
    }
    return of_local({std::move(launch), nullptr}, std::move(options), std::move(hooks));
  }
  const bool is_alone = launch.launcher == transport::Launcher::kNone || launch.size == 1;
  if (is_alone) return of_threads(1, std::move(options), std::move(hooks), std::move(launch));
  const int size = replica.has_others() ? options.ranks_per_replica : launch.size.value_or(1);
  std::unique_ptr<State> state(new State(std::move(options), std::move(hooks), std::move(launch), replica));
  state->set_ranks(state->launch_.rank - replica.first, /*local=*/1, size);
  state->start_reading_ahead();
  LOCKSTEP_TRY_VOID(state->meet(make_launched_meeting(*state)));
  return state;
}

Result<std::unique_ptr<State>> State::of_processes(int ranks, GroupOptions options, Hooks hooks) {
  LOCKSTEP_TRY(auto launch, transport::read_launch_environment(environment));
  const bool is_alone = ranks == 1 && launch.launcher == transport::Launcher::kNone;
  if (is_alone) return of_threads(1, std::move(options), std::move(hooks), std::move(launch));
  LOCKSTEP_TRY(LocalSeat seat, find_seat(ranks, launch));
  return of_local(std::move(seat), std::move(options), std::move(hooks));
}

Result<std::unique_ptr<State>> State::of_local(LocalSeat seat, GroupOptions options, Hooks hooks) {
  std::unique_ptr<State> state(new State(std::move(options), std::move(hooks), std::move(seat.launch)));
  state->set_ranks(state->launch_.rank, /*local=*/1, state->launch_.size.value_or(1));
  state->start_reading_ahead();
  LOCKSTEP_TRY_VOID(state->meet(make_local_meeting(*state, std::move(seat.children))));
  return state;
}

Result<std::unique_ptr<State>> State::of_communicator(MpiHandle communicator, GroupOptions options, Hooks hooks) {
  std::unique_ptr<State> state(new State(std::move(options), std::move(hooks), {}));
  state->set_ranks(/*first=*/0, /*local=*/1, /*size=*/1);
  LOCKSTEP_TRY_VOID(state->meet(make_adopted_meeting(*state, communicator)));
  return state;
}

const ControlPlane& State::control_plane() const {
  static const ControlPlane kLoopback;
  return meeting_ == nullptr ? kLoopback : meeting_->control_plane();
}

transport::WaitOptions State::wait_options(const AbortFlag& abort) const {
  return {.abort = &abort, .clock = &clock_, .deadline = options_.deadline};
}

Result<std::unique_ptr<transport::Bootstrap>> State::make_bootstrap(int rank, const AbortFlag& abort) {
  std::unique_ptr<transport::Bootstrap> bootstrap;
  if (meeting_ != nullptr) {
    LOCKSTEP_TRY(bootstrap, meeting_->make_bootstrap(wait_options(abort)));
  } else if (ranks_are_threads()) {
    bootstrap = transport::loopback::make_bootstrap(threads_, rank, wait_options(abort));
  } else {
    bootstrap = transport::make_single_bootstrap();
  }
  return hooks_.bootstrap ? hooks_.bootstrap(rank, std::move(bootstrap)) : std::move(bootstrap);
}

/// Returns whether this call was the first.
bool State::settle(const Error& error) {
  std::lock_guard lock(mutex_);
  if (failure_) return false;
  failure_ = error;
  for (AbortFlag* flag : flags_) flag->raise(error);
  abort_.raise(error);
  return true;
}

Error State::fail(int rank, const Error& error) {
  Error cause = error;
  if (const auto lock = hold_meeting(); meeting_ != nullptr) cause = meeting_->cause_of(error);
  if (!cause.origin_rank) cause.origin_rank = rank;
  if (hooks_.settle) cause = hooks_.settle(rank, cause);
  const bool is_first = settle(cause);
  tell(cause);
  if (is_first && options_.on_failure) options_.on_failure(cause);
  return cause;
}

std::vector<RankPresence> State::presence() const {
  std::vector<RankPresence> ranks(static_cast<size_t>(size_));
  for (int i = 0; i < local_ranks_; ++i) ranks[static_cast<size_t>(first_rank_ + i)].host = host_name();
  std::vector<transport::watch::Presence> watched;
  if (const auto lock = hold_meeting(); meeting_ != nullptr) watched = meeting_->presence();
  for (size_t i = 0; i < watched.size(); ++i) ranks[i] = {watched[i].host, watched[i].silence, watched[i].is_leaving};
  return ranks;
}

void State::announce_leave() {
  if (const auto lock = hold_meeting(); meeting_ != nullptr) meeting_->announce_leave();
}

void State::tell(const Error& error) {
  if (const auto lock = hold_meeting(); meeting_ != nullptr) meeting_->tell(error);
}

void State::end_by_peer(const Error& error) {
  const Error cause = hooks_.settle ? hooks_.settle(first_rank_, error) : error;
  const bool is_first = settle(cause);
  if (hooks_.on_lost) hooks_.on_lost();
  if (is_first && options_.on_failure) options_.on_failure(cause);
}

std::optional<Error> State::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void State::watch_flag(AbortFlag& flag) {
  std::lock_guard lock(mutex_);
  if (failure_) flag.raise(*failure_);
  flags_.push_back(&flag);
}

void State::forget_flag(AbortFlag& flag) {
  std::lock_guard lock(mutex_);
  std::erase(flags_, &flag);
}

void State::wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                 const std::function<bool()>& is_done) {
  if (meeting_ == nullptr || !meeting_->needs_this_thread()) return changed.wait(lock, is_done);
  lock.unlock();
  meeting_->lend([&] {
    const std::lock_guard look(*lock.mutex());
    return is_done();
  });
  lock.lock();
}

Result<std::vector<std::string>> State::exchange_on_launch(std::string_view mine) {
  return named(launch_bootstrap().exchange(mine), replica());
}

Result<void> State::all_succeeded_on_launch(const Result<void>& mine) {
  return named(group::all_succeeded(launch_bootstrap(), mine), replica());
}

Result<void> State::agree_on_launch(std::string_view what, std::string_view statement) {
  return named(transport::agree(launch_bootstrap(), what, statement), replica());
}

Result<void> State::leave() {
  phases_->enter("finish");
  if (meeting_ == nullptr) return ok();
  own_bootstrap_.reset();
  siblings_.bootstrap.reset();
  LOCKSTEP_TRY_VOID(meeting_->leave());
  std::unique_ptr<ProcessMeeting> left;  // ends its threads unlocked: they may be waiting for the lock
  const std::lock_guard lock(meeting_mutex_);
  left.swap(meeting_);
  return ok();
}

}  // namespace lockstep::group
