// One rank's reporting: its log, its phase, what it is doing, and how it ends. The first thread to report the end
// settles it: the exit record is written at that moment, and later reports return the same error.
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
  /// Everything is borrowed. `sink` takes its log.
  RankLifecycle(int rank, const Clock& clock, const RunOptions& run, Faults faults, Log::Sink sink = {});

  int rank() const { return rank_; }
  const Log& log() const { return log_; }
  trace::FlightRecorder& recorder() { return recorder_; }
  /// Of the rank's exchanges, over all bootstraps that it makes.
  uint64_t& exchanges() { return exchanges_; }
  Faults& faults() { return faults_; }

  /// `phase` has begun; a string literal.
  void enter_phase(const char* phase);
  /// A step of the model is about to run.
  void begin_step(const actors::ExecutorStatus& status);
  /// The rank runs steps from here on; empty functions: no longer.
  void set_running(const group::RunningRank& running);

  /// "load, at exchange (operation 4)".
  std::string activity() const;

  /// Ends the session on every rank, if there is one; returns whether there was.
  bool cancel();

  /// The rank ends with `error`: writes exit record and flight recorder. The first call counts; returns its error, with
  /// what this rank was doing if it tells of a peer.
  Error settle(Error error);
  /// The rank has done its work. Fails with the error that was settled before.
  Result<void> settle_well();

  /// Ends the process with the settled error unless it has ended by itself within `grace`: its main thread may be
  /// inside a call that polls nothing. The first call counts.
  void end_within(Duration grace);

  /// Writes the flight recorder, if there is to be one, and reports on stderr what the rank is doing.
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
  std::mutex mutex_;  // of the two below
  bool is_settled_ = false;
  std::optional<Error> error_;
  std::mutex overdue_mutex_;
  std::optional<group::Watchdog> overdue_;
};

}  // namespace lockstep::launcher
