// The processes of ranks, started and watched by this one.
//
//   start ──► a thread for each rank: exec ──► wait ──┬─ ended before `expect_end`: reported as a lost rank
//                                                     └─ ended after it: `wait` counts it
//   destructor: frozen processes wake up; those that do not end by themselves within a second get SIGTERM, then SIGKILL
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/core/stop_event.h"
#include "runtime/process/child_process.h"
#include "transport/launch_environment.h"
#include "transport/local/local.h"

namespace lockstep::group {

/// Neither copied nor moved.
class RankProcesses {
 public:
  /// The ranks after `launch.rank` will run `command` with `environment` and the variables of their launch, and meet in
  /// `file`. Starts nothing.
  RankProcesses(std::vector<std::string> command, process::EnvironmentMap environment,
                transport::LaunchEnvironment launch, transport::local::MeetingFile file);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Starts all of them. `on_lost` is called on another thread for a process that ends too early. Fails with the first
  /// error of a process that cannot be started. Once. @blocking
  Result<void> start(std::function<void(const Error&)> on_lost);

  /// From now on the end of a process is no loss.
  void expect_end();
  /// Waits until all processes have ended. Fails with `kDeadlineExceeded` naming those that have not. @blocking
  Result<void> wait(Duration deadline);

 private:
  /// Progress of one process.
  struct State {
    int rank = 0;
    std::optional<Result<void>> started;
    process::ChildProcess* process = nullptr;  // of its thread, while it runs
    bool has_ended = false;
  };

  void run(State& state);
  void wake();
  std::vector<int> left() const;

  const std::vector<std::string> command_;
  const process::EnvironmentMap environment_;
  const transport::LaunchEnvironment launch_;
  std::optional<transport::local::MeetingFile> file_;  // until the processes have it
  std::function<void(const Error&)> on_lost_;
  StopEvent stop_;
  std::mutex mutex_;  // guards the three below
  std::condition_variable changed_;
  std::vector<State> states_;
  bool is_end_expected_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::group
