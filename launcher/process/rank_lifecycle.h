// One rank's reporting: its log, its phases, what it is doing, and how it ends. Whoever learns of an end first (the
// main thread, the watch, Ctrl-C) settles it; the exit record is written at that moment, and all that follows repeats
// it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "launcher/cli/command_line.h"
#include "launcher/process/fault.h"
#include "launcher/ranks/phases.h"
#include "launcher/ranks/rank_setup.h"
#include "launcher/ranks/watchdog.h"
#include "runtime/core/log.h"
#include "runtime/trace/flight_recorder.h"

namespace lockstep::launcher {

/// This machine's name.
std::string host_name();

/// Thread-safe, but for `phases().enter`.
class RankLifecycle {
 public:
  /// Everything is borrowed.
  RankLifecycle(int rank, const Clock& clock, const RunOptions& run, Faults faults);

  int rank() const { return rank_; }
  const std::string& host() const { return host_; }
  const Log& log() const { return log_; }
  Phases& phases() { return phases_; }
  RankMonitor& monitor() { return monitor_; }
  trace::FlightRecorder& recorder() { return recorder_; }
  Faults& faults() { return faults_; }

  /// A step of the model is about to run.
  void begin_step(const actors::ExecutorStatus& status);

  /// "load, at exchange (operation 4)".
  std::string activity() const;

  /// The rank ends with `error`: writes exit record and flight recorder. The first call counts; returns its error, with
  /// what this rank was doing if it tells of a peer.
  Error settle(Error error);
  /// The rank has done its work. Fails with the error that was settled before.
  Result<void> settle_well();

  /// Ends the process with the settled error unless it has ended by itself within `grace`: its main thread may be
  /// inside a call that polls nothing. The first call counts.
  void end_within(Duration grace);

  /// Writes the flight recorder, if there is to be one, and says on stderr what the rank is doing.
  void report_activity();

 private:
  void record(const Error* error);
  void dump(const std::string& why) const;
  std::string phase() const;

  const int rank_;
  const std::string host_;
  const RunOptions& run_;
  Faults faults_;
  Log log_;
  Phases phases_;
  RankMonitor monitor_;
  trace::FlightRecorder recorder_;
  std::mutex mutex_;  // of the two below
  bool is_settled_ = false;
  std::optional<Error> error_;
  std::mutex overdue_mutex_;
  std::optional<Watchdog> overdue_;
};

}  // namespace lockstep::launcher
