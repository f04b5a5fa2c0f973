// The measurement of a run on one rank, as ObserveOptions select; otherwise it does nothing and costs nothing. It wraps
// the objects of the run and reads the clock at each call:
//
//   Observation observation(options, member);                the member's bootstrap is timed
//   observation.begin(plan, …)                               compares clocks, if there are several hosts
//   communicator = observation.timed(communicator)
//   engine       = observation.timed(engine)                 steps; allocates the memory for all events
//   sink         = observation.timed(sink)                   rank 0: requests; writes the metrics file from here on
//        … the run …
//   observation.gather()                                     sends every rank's events to rank 0
//   observation.write(…)                                     rank 0: writes the files
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/group/member.h"
#include "engine/model/plan.h"
#include "engine/observe/periodic_file.h"
#include "engine/observe/request_log.h"
#include "engine/observe/run_metrics.h"
#include "engine/observe/step_clock.h"
#include "lockstep/options.h"
#include "runtime/trace/rank_report.h"
#include "runtime/trace/timed_communicator.h"

namespace lockstep::observe {

/// Used by the rank's thread.
class Observation {
 public:
  /// Borrows the member. Events are recorded from here on.
  Observation(const ObserveOptions& options, group::Member& member);

  /// Call when every rank has the plan. @collective @blocking
  Result<void> begin(const model::Plan& plan, std::string_view backend);

  /// The communicator to use instead of `communicator`; null stays null.
  device::Communicator* timed(device::Communicator* communicator);
  shards::StepEngine& timed(shards::StepEngine& engine);
  /// On rank 0: a log of the requests that forwards every call to `sink`; null without observation.
  RequestLog* timed(actors::Sink& sink);

  /// The summary of the run, on rank 0 if it was observed; empty elsewhere. @collective @blocking
  Result<std::optional<trace::GroupReport>> gather();

  /// Writes the selected files on rank 0 after `gather`; the other ranks wait. `memory` is of all ranks, `tokens` of
  /// all answers. Fails on every rank if a file cannot be written. @collective @blocking
  Result<void> write(const std::optional<trace::GroupReport>& report, const std::vector<RankMemory>& memory,
                     int64_t tokens);

 private:
  RunMetrics live_metrics() const;
  Result<void> write_files(const trace::GroupReport& report, const std::vector<RankMemory>& memory, int64_t tokens);

  const ObserveOptions options_;
  group::Member& member_;
  trace::CollectiveLog collectives_;
  std::string host_;
  std::vector<int> cores_;
  trace::Labels run_;
  bool has_one_clock_ = true;
  std::vector<trace::Ping> pings_;
  std::unique_ptr<trace::TimedCommunicator> communicator_;
  std::unique_ptr<StepClock> steps_;
  std::unique_ptr<RequestLog> requests_;
  double start_time_s_ = 0.0;
  std::vector<trace::RankTimeline> timelines_;  // on rank 0, after `gather`
  std::unique_ptr<PeriodicFile> metrics_file_;  // reads the fields above
};

}  // namespace lockstep::observe
