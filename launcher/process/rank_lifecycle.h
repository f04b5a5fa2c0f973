// One rank's log, phase, current activity and end. The first report of the end writes the exit record; later reports
// return the same error.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/group/hooks.h"
#include "engine/group/watchdog.h"
#include "launcher/process/fault.h"
#include "launcher/process/run_options.h"
#include "runtime/core/log.h"
#include "runtime/trace/flight_recorder.h"

namespace lockstep::launcher {

/// Thread-safe, except `enter_phase` and `begin_step`, which the rank's thread calls.
class RankLifecycle {
 public:
  /// Everything is borrowed. `sink` receives its log. Removes the exit record that an earlier run has left of the rank:
  /// one that is killed leaves none.
  RankLifecycle(int rank, const Clock& clock, const RunOptions& run, Faults faults, Log::Sink sink = {});

  int rank() const { return rank_; }
  const Log& log() const { return log_; }
  trace::FlightRecorder& recorder() { return recorder_; }
  /// The number of the rank's exchanges, over all bootstraps that it makes.
  uint64_t& exchanges() { return exchanges_; }
  Faults& faults() { return faults_; }

  /// Starts `phase`, a string literal.
  void enter_phase(const char* phase);
  /// A step of the model is about to run.
  void begin_step(const actors::ExecutorStatus& status);
  /// Sets the functions of a rank that runs steps; empty functions: it has stopped.
  void set_running(const group::RunningRank& running);

  /// "load, at exchange (operation 4)".
  std::string activity() const;

  /// Whether it runs steps, or can.
  bool is_running() const;
  /// Whether it does, or did.
  bool has_run() const { return has_run_; }
  /// Ends the session on every rank, if there is one; returns whether there was.
  bool cancel();

  /// Ends the rank with `error`: writes exit record and flight recorder. The first call counts; returns its error, with
  /// this rank's activity if the error is about a peer.
  Error settle(Error error);
  /// Ends the rank after its work. Fails with the error that was recorded before.
  Result<void> settle_well();

  /// Ends the process with the recorded error unless it has ended by itself within `grace`: its main thread may be
  /// inside a call that cannot be interrupted. The first call counts.
  void end_within(Duration grace);

  /// Writes the flight recorder, if it is enabled, and reports on stderr the rank's current activity.
  void report_activity();

 private:
  void record(const Error* error);
  void dump(const std::string& why) const;
  std::string phase() const;

  const int rank_;
  const std::string host_;
  const RunOptions& run_;
  Faults faults_;
  const Log log_;
  trace::FlightRecorder recorder_;
  uint64_t exchanges_ = 0;
  std::atomic<const char*> phase_ = "start";
  mutable std::mutex running_mutex_;
  group::RunningRank running_;
  std::atomic<bool> has_run_ = false;
  std::mutex mutex_;  // guards the two below
  bool is_settled_ = false;
  std::optional<Error> error_;
  std::mutex overdue_mutex_;
  std::optional<group::Watchdog> overdue_;
};

}  // namespace lockstep::launcher
