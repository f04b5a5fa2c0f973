#include "launcher/process/own_ranks.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/group/state.h"
#include "launcher/process/differing_communicator.h"
#include "launcher/process/exit_record.h"
#include "launcher/process/fault.h"
#include "launcher/process/interruption.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/rank_lifecycle.h"
#include "launcher/process/recorded_bootstrap.h"
#include "launcher/process/stderr_log.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/guard.h"
#include "runtime/trace/recorded_communicator.h"
#include "transport/launch_environment.h"

namespace lockstep::launcher {
namespace {

/// Time for a main thread to end by itself once another process or a signal has ended the job.
constexpr auto kGrace = std::chrono::milliseconds(700);
/// The same for a process that ends the ranks that it has started.
constexpr auto kGraceOfStarter = std::chrono::milliseconds(2500);

Error interrupted() { return {ErrorKind::kCancelled, "[launcher] interrupted; start again to run the job"}; }

/// Checks that both folders can be written; each gets a rank-R.json.
Result<void> check_folders(const RunOptions& run) {
  std::error_code ignored;
  if (run.exit_record && run.makes_exit_record) std::filesystem::create_directories(*run.exit_record, ignored);
  if (run.exit_record) LOCKSTEP_TRY_VOID(check_writable(*run.exit_record / "rank-0.json", "--exit-record"));
  if (!run.flight_recorder) return ok();
  LOCKSTEP_TRY_VOID(check_writable(*run.flight_recorder / "rank-0.json", "--flight-recorder"));
  if (!run.exit_record || !std::filesystem::equivalent(*run.exit_record, *run.flight_recorder, ignored)) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] --flight-recorder: found {}, the folder of --exit-record, expected another one: "
                           "both write rank-R.json",
                           run.flight_recorder->string())};
}

Result<std::vector<Fault>> parse_faults(const std::vector<std::string>& texts) {
  std::vector<Fault> faults;
  for (const std::string& text : texts) {
    LOCKSTEP_TRY(faults.emplace_back(), parse_fault(text));
  }
  return faults;
}

/// --tp against the ranks that a launcher started. Pure.
Result<void> check_degree(int degree, int started, Replicas replicas) {
  const bool divides = degree < started && started % degree == 0;
  if (degree == started || (divides && replicas == Replicas::kMade)) return ok();
  if (divides) {
    return Error{
        ErrorKind::kFailedPrecondition,
        fmt::format("[launcher] --tp: found {} with {} ranks that were started, expected --tp {} or {} rank{}; "
                    "several groups of ranks, replicas, are for batch jobs (--prompts-file) and serve",
                    degree, started, started, degree, degree == 1 ? "" : "s")};
  }
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[launcher] --tp: found {}, expected {} (the ranks that were started){}; start as many ranks, or "
                  "omit --tp",
                  degree, started, replicas == Replicas::kMade ? " or a divisor" : "")};
}

/// The lifecycles of this process's ranks, and their hooks into the group.
class Process {
 public:
  Process(const OwnRanks& ranks, transport::LaunchEnvironment launch, const std::vector<Fault>& faults)
      : ranks_(ranks), launch_(std::move(launch)), first_(are_threads() ? 0 : launch_.rank) {
    const int count = are_threads() ? own_ranks() : 1;
    for (int rank = first_; rank < first_ + count; ++rank) {
      Log::Sink sink = stderr_sink(rank + ranks.run.first_rank.value_or(0));
      if (ranks.progress != nullptr) sink = ranks.progress->before(std::move(sink));
      lifecycles_.push_back(
          std::make_unique<RankLifecycle>(rank, clock_, ranks.run, Faults(faults, rank), std::move(sink)));
    }
    // Each rank removes its own record of an earlier run; those beyond this launch have no rank that does.
    const std::optional<int> size = launch_size();
    if (first_ == 0 && size && ranks.run.exit_record) remove_exit_records(*ranks.run.exit_record, *size);
  }

  Result<void> run(const GroupWork& work) {
    const Interruption interruption([this](int signal) { take_signal(signal); });
    const Result<void> result = guarded("launcher", [&] { return run_group(work); });
    for (const auto& lifecycle : lifecycles_) {
      if (!result.has_value()) lifecycle->settle(result.error());
    }
    for (const auto& lifecycle : lifecycles_) LOCKSTEP_TRY_VOID(lifecycle->settle_well());
    return ok();
  }

 private:
  bool are_threads() const { return ranks_.run.launch == Launch::kThreads; }
  /// The ranks that this process starts, itself included.
  int own_ranks() const { return ranks_.ranks.value_or(1); }
  bool starts_processes() const {
    return ranks_.run.launch == Launch::kProcesses && launch_.launcher == transport::Launcher::kNone;
  }
  /// The ranks of the launch, of all its replicas; empty: unknown.
  std::optional<int> launch_size() const {
    return are_threads() || starts_processes() ? std::optional(own_ranks()) : launch_.size;
  }
  bool makes_replicas() const {
    return ranks_.replicas == Replicas::kMade && ranks_.run.launch == Launch::kMpi && ranks_.ranks &&
           launch_.launcher != transport::Launcher::kNone && launch_.size != *ranks_.ranks;
  }
  /// Of this process's first rank, which counts as `first_` in the launch.
  int rank_in_group() const { return makes_replicas() ? first_ % *ranks_.ranks : first_; }
  Duration grace() const { return starts_processes() ? Duration(kGraceOfStarter) : Duration(kGrace); }
  Result<std::unique_ptr<Group>> open_group();
  RankLifecycle& of(int rank) { return *lifecycles_.at(static_cast<size_t>(rank - first_)); }

  Result<void> run_group(const GroupWork& work);
  Result<void> check_launched() const;
  Result<void> check_not_interrupted();
  Result<void> check_size(Group& group) const;
  GroupOptions group_options();
  std::function<void(const Progress&)> progress_function() const;
  group::Hooks hooks();
  std::unique_ptr<device::Communicator> watched(int rank, std::unique_ptr<device::Communicator> inner);
  bool announce_leave();
  void take_signal(int signal);
  /// Call before the process ends without destructors.
  void close_progress() {
    if (ranks_.progress != nullptr) ranks_.progress->close();
  }

  const OwnRanks& ranks_;
  const transport::LaunchEnvironment launch_;
  const int first_;
  const SteadyClock clock_;
  std::vector<std::unique_ptr<RankLifecycle>> lifecycles_;
  std::mutex mutex_;                         // guards the two below
  group::State* group_ = nullptr;            // set while there is a group
  std::optional<Error> early_interruption_;  // of a signal without a group
};

Result<std::unique_ptr<Group>> Process::open_group() {
  switch (ranks_.run.launch) {
    case Launch::kThreads: return group::open_threads(own_ranks(), group_options(), hooks());
    case Launch::kProcesses: return group::open_processes(own_ranks(), group_options(), hooks());
    case Launch::kMpi: break;
  }
  return group::open_launched(launch_, group_options(), hooks());
}

Result<void> Process::run_group(const GroupWork& work) {
  LOCKSTEP_TRY_VOID(check_launched());
  LOCKSTEP_TRY(const auto group, open_group());
  group::State& state = group::State::of(*group);
  const Result<void> done = guarded("launcher", [&]() -> Result<void> {
    state.phases().enter("plan");
    LOCKSTEP_TRY_VOID(check_not_interrupted());
    LOCKSTEP_TRY_VOID(check_size(*group));
    LOCKSTEP_TRY_VOID(work(*group, lifecycles_.front()->log()));
    return group->leave();
  });
  if (!done.has_value()) return state.fail(rank_in_group(), done.error());
  return ok();
}

/// Of ranks that a launcher started, before they meet where it says how many they are.
Result<void> Process::check_launched() const {
  if (!ranks_.ranks || ranks_.run.launch != Launch::kMpi || !launch_.size) return ok();
  return check_degree(*ranks_.ranks, *launch_.size, ranks_.replicas);
}

/// A signal ends a group that it finds; one from before is found here.
Result<void> Process::check_not_interrupted() {
  std::lock_guard lock(mutex_);
  if (early_interruption_) return *early_interruption_;
  return ok();
}

Result<void> Process::check_size(Group& group) const {
  return ranks_.ranks ? check_degree(*ranks_.ranks, group.size(), Replicas::kRefused) : ok();
}

std::function<void(const Progress&)> Process::progress_function() const {
  if (ranks_.progress == nullptr || !ranks_.progress->is_shown()) return {};
  return [line = ranks_.progress](const Progress& progress) { line->show(progress); };
}

GroupOptions Process::group_options() {
  const RunOptions& run = ranks_.run;
  return {.start_deadline = duration_of(run.start_deadline_s),
          .deadline = duration_of(run.deadline_s),
          .silence = duration_of(run.silence_s),
          .network = run.interface.value_or(""),
          .read_ahead = ranks_.read_ahead,
          .log = [this](int rank, LogLevel level, std::string_view line) { of(rank).log().write(level, line); },
          .on_stuck =
              [this](const Error& error) {
                lifecycles_.front()->log().error("{}", error.message);
                std::_Exit(exit_code(error.kind));
              },
          .set_environment = set_own_variable,
          .on_progress = progress_function(),
          .ranks_per_replica = makes_replicas() ? *ranks_.ranks : 0};
}

group::Hooks Process::hooks() {
  group::Hooks hooks{
      .on_group =
          [this](group::State* group) {
            std::lock_guard lock(mutex_);
            group_ = group;
          },
      .on_phase = [this](int rank, const char* phase) { of(rank).enter_phase(phase); },
      .on_step = [this](int rank, const actors::ExecutorStatus& status) { of(rank).begin_step(status); },
      .on_running = [this](int rank, const group::RunningRank& running) { of(rank).set_running(running); },
      .settle = [this](int rank, const Error& error) { return of(rank).settle(error); },
      .activity = [this](int rank) { return of(rank).activity(); },
      .on_lost =
          [this] {
            close_progress();
            lifecycles_.front()->end_within(grace());
          },
      .bootstrap =
          [this](int rank, std::unique_ptr<transport::Bootstrap> inner) {
            RankLifecycle& own = of(rank);
            return std::make_unique<RecordedBootstrap>(std::move(inner), own.recorder(), own.exchanges());
          },
      .communicator = [this](int rank,
                             std::unique_ptr<device::Communicator> inner) { return watched(rank, std::move(inner)); },
      .phases_before = {{"exec", process_age_s()}},
      .detection = ranks_.run.peer_detection == Detection::kOff ? group::PeerDetection::kOff : ranks_.detection,
      .meeting = ranks_.meeting,
      .shares_host = ranks_.run.first_rank.has_value()};
  const bool may_flip =
      std::ranges::any_of(lifecycles_, [](const auto& lifecycle) { return lifecycle->faults().may_flip(); });
  if (may_flip) {
    hooks.on_weights = [this](int rank, const std::string& tensor, std::span<std::byte> read) {
      of(rank).faults().at_weights(tensor, read);
    };
    hooks.on_resident_weights = [this](int rank, const std::vector<device::ResidentWeight>& weights) {
      of(rank).faults().set_weights(weights);
    };
  }
  return hooks;
}

std::unique_ptr<device::Communicator> Process::watched(int rank, std::unique_ptr<device::Communicator> inner) {
  if (inner == nullptr) return nullptr;
  RankLifecycle& own = of(rank);
  if (own.faults().may_differ()) {
    inner = std::make_unique<DifferingCommunicator>(std::move(inner),
                                                    [&faults = own.faults()] { return faults.take_difference(); });
  }
  return std::make_unique<trace::RecordedCommunicator>(std::move(inner), own.recorder());
}

/// Whether rank 0, in another process, was told.
bool Process::announce_leave() {
  std::lock_guard lock(mutex_);
  if (group_ == nullptr || rank_in_group() == 0) return false;
  group_->announce_leave();
  return true;
}

/// Ctrl-C and SIGTERM end the session on every rank; before there is a session they end every wait.
void Process::take_signal(int signal) {
  if (signal == SIGUSR1) {
    for (const auto& lifecycle : lifecycles_) lifecycle->report_activity();
    return;
  }
  RankLifecycle& first = *lifecycles_.front();
  if (signal == SIGTERM && ranks_.end_signal == EndSignal::kInterrupt && first.has_run()) {
    return first.log().warning("leaves the end to the server, after SIGTERM");
  }
  if (signal == SIGTERM && ranks_.end_signal == EndSignal::kLeave && first.is_running() && announce_leave()) {
    return first.log().warning("is to leave, after SIGTERM: the server goes on without its host's ranks");
  }
  close_progress();
  const Error error = first.settle(interrupted());
  const bool was_running = first.cancel();
  const bool has_others = starts_processes() || launch_.launcher != transport::Launcher::kNone;
  if (!was_running || has_others) {
    for (const auto& lifecycle : lifecycles_) lifecycle->settle(error);  // the process may end before their threads do
    first.end_within(grace());
  }
  std::lock_guard lock(mutex_);
  if (group_ == nullptr) {
    early_interruption_ = error;
  } else if (was_running) {
    group_->tell(error);
  } else {
    group_->fail(rank_in_group(), error);
  }
}

}  // namespace

Result<void> on_own_ranks(const OwnRanks& ranks, const GroupWork& work) {
  LOCKSTEP_TRY_VOID(check_folders(ranks.run));
  LOCKSTEP_TRY(const std::vector<Fault> faults, parse_faults(ranks.run.faults));
  transport::LaunchEnvironment launch;  // ranks that are threads: one process, alone
  if (ranks.run.launch != Launch::kThreads) {
    LOCKSTEP_TRY(launch, transport::read_launch_environment(own_variable));
  }
  return Process(ranks, std::move(launch), faults).run(work);
}

}  // namespace lockstep::launcher
