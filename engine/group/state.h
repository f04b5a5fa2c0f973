// The state behind a Group: local ranks, connection to other processes, and its end. Engines use it; programs use
// lockstep/group.h.
//
//   a rank fails, the watch reports a loss, Group::fail ──► fail ──► every flag raised, other processes notified,
//                                                                    GroupOptions::on_failure
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "engine/group/hooks.h"
#include "engine/group/local_meeting.h"
#include "engine/group/meeting.h"
#include "engine/group/progress_reporter.h"
#include "engine/group/replicas.h"
#include "engine/group/run_phases.h"
#include "lockstep/group.h"
#include "runtime/checkpoint/read_ahead.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/log.h"
#include "transport/launch_environment.h"
#include "transport/loopback/loopback.h"

namespace lockstep::group {

/// Thread-safe, except `leave`.
class State {
 public:
  /// `size` ranks of one process, as threads if there are several.
  static Result<std::unique_ptr<State>> of_threads(int size, GroupOptions options, Hooks hooks,
                                                   transport::LaunchEnvironment launch = {});
  /// The ranks that the launcher started, which `launch` describes. @collective @blocking
  static Result<std::unique_ptr<State>> of_launch(transport::LaunchEnvironment launch, GroupOptions options,
                                                  Hooks hooks);
  /// `ranks` processes on this host: this one starts the others, or was started so. @collective @blocking
  static Result<std::unique_ptr<State>> of_processes(int ranks, GroupOptions options, Hooks hooks);
  /// The ranks of the program's own communicator. @collective @blocking
  static Result<std::unique_ptr<State>> of_communicator(MpiHandle communicator, GroupOptions options, Hooks hooks);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static State& of(Group& group) { return *group.state_; }
  static std::unique_ptr<Group> wrap(std::unique_ptr<State> state);

  int first_rank() const { return first_rank_; }  // of this process
  int local_ranks() const { return local_ranks_; }
  int size() const { return size_; }
  bool ranks_are_threads() const { return threads_ != nullptr; }
  const std::string& name() const { return name_; }

  const GroupOptions& options() const { return options_; }
  const Hooks& hooks() const { return hooks_; }
  const Clock& clock() const { return clock_; }
  const Log& log(int rank) const { return *logs_.at(static_cast<size_t>(rank - first_rank_)); }
  /// A warning of threads that run before, after and beside the rank's own log. Thread-safe.
  void warn(int rank, std::string_view line) const;
  const transport::LaunchEnvironment& launch() const { return launch_; }

  const Replica& replica() const { return siblings_.replica; }
  /// Of all ranks of the launch, where it has several groups; otherwise empty.
  const std::vector<transport::RankPlace>& launch_places() const { return siblings_.places; }
  /// Of this host, for processes of the launch's other hosts.
  const std::string& launch_address() const { return siblings_.address; }
  /// What the meeting has found out about the launch, when it has several groups.
  void set_launch(Launch launch) { siblings_ = std::move(launch); }
  /// As the group's, between all ranks of the launch; replicas call these at their start only, all in the same order.
  /// @collective @blocking
  Result<std::vector<std::string>> exchange_on_launch(std::string_view mine);
  Result<void> all_succeeded_on_launch(const Result<void>& mine);
  Result<void> agree_on_launch(std::string_view what, std::string_view statement);

  const ControlPlane& control_plane() const;
  ProcessMeeting* meeting() const { return meeting_.get(); }  // null: all ranks are in this process
  const std::shared_ptr<transport::loopback::Group>& threads() const { return threads_; }  // null: processes
  /// The object that reads the weights of `model` ahead; null if there is none.
  const checkpoint::ReadAhead* read_ahead(const std::filesystem::path& model) const;
  /// Phases before engines: launch and bootstrap.
  RunPhases& phases() { return *phases_; }

  /// Null if rank 0 is in another process, or without GroupOptions::on_progress.
  ProgressReporter* progress() const { return progress_.get(); }

  transport::WaitOptions wait_options(const AbortFlag& abort) const;
  /// The flag of the thread that made the group.
  const AbortFlag& own_abort() const { return abort_; }
  transport::WaitOptions own_wait() const { return wait_options(abort_); }
  /// A separate bootstrap of a local rank for one user of the group. @collective @blocking
  Result<std::unique_ptr<transport::Bootstrap>> make_bootstrap(int rank, const AbortFlag& abort);
  /// The bootstrap of the thread that made the group; rank 0's if ranks are threads.
  transport::Bootstrap& own_bootstrap() { return *own_bootstrap_; }

  /// Records that `rank` of this process has failed and ends the group; returns the error that counts. @blocking
  Error fail(int rank, const Error& error);
  /// Ends the group because another process has failed or is lost.
  void end_by_peer(const Error& error);
  std::vector<RankPresence> presence() const;
  void announce_leave();
  /// Sends an end that is already recorded to the other processes. @blocking
  void tell(const Error& error);
  std::optional<Error> failure() const;

  /// Raises `flag` with the group's failure, now or later, until `forget_flag`.
  void watch_flag(AbortFlag& flag);
  void forget_flag(AbortFlag& flag);

  /// Waits on the calling thread until `is_done`, which `changed` signals under `lock`; meanwhile the thread makes the
  /// calls of MPI that only it may make. @blocking
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const std::function<bool()>& is_done);

  /// @collective @blocking
  Result<void> leave();

 private:
  State(GroupOptions options, Hooks hooks, transport::LaunchEnvironment launch, const Replica& replica = {});

  void set_ranks(int first, int local, int size);
  void start_reading_ahead();
  static Result<std::unique_ptr<State>> of_local(LocalSeat seat, GroupOptions options, Hooks hooks);
  /// Meets the other processes. @collective @blocking
  Result<void> meet(std::unique_ptr<ProcessMeeting> meeting);
  /// The bootstrap between all ranks of the launch.
  transport::Bootstrap& launch_bootstrap() { return siblings_.bootstrap ? *siblings_.bootstrap : *own_bootstrap_; }
  bool settle(const Error& error);
  /// Keeps the meeting, if there is one, while another thread than its maker uses it.
  std::shared_lock<std::shared_mutex> hold_meeting() const { return std::shared_lock(meeting_mutex_); }

  const GroupOptions options_;
  const Hooks hooks_;
  const SteadyClock clock_;
  transport::LaunchEnvironment launch_;
  int first_rank_ = 0, local_ranks_ = 1, size_ = 1;
  std::string name_;
  std::vector<std::unique_ptr<Log>> logs_;  // [local ranks]
  std::unique_ptr<RunPhases> phases_;
  std::shared_ptr<transport::loopback::Group> threads_;  // shared as transport/loopback requires
  AbortFlag abort_;                                      // of the group's own exchanges
  mutable std::mutex mutex_;                             // guards the two below
  std::optional<Error> failure_;
  std::vector<AbortFlag*> flags_;
  std::unique_ptr<ProgressReporter> progress_;
  std::unique_ptr<checkpoint::ReadAhead> read_ahead_;
  mutable std::shared_mutex meeting_mutex_;  // of the pointer, which only the thread that made the group sets
  std::unique_ptr<ProcessMeeting> meeting_;
  std::unique_ptr<transport::Bootstrap> own_bootstrap_;
  Launch siblings_;
};

/// Opens a group with the program's own hooks. Fails as `Group::mpi`, `Group::processes` and `Group::threads`.
/// @collective @blocking
Result<std::unique_ptr<Group>> open_launched(transport::LaunchEnvironment launch, GroupOptions options, Hooks hooks);
Result<std::unique_ptr<Group>> open_processes(int ranks, GroupOptions options, Hooks hooks);
Result<std::unique_ptr<Group>> open_threads(int ranks, GroupOptions options, Hooks hooks);

}  // namespace lockstep::group
