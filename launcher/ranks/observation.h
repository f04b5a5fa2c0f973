// How a run is watched, on one rank, when --trace, --metrics or --profile asks for it; else it does nothing and costs
// nothing. It stands between the run and what the run uses, and looks at the clock:
//
//   Observation observation(command.observe, context);       the bootstrap of its context is timed
//   observation.begin(plan)                                  compares clocks, where there are several hosts
//   communicator = observation.timed(communicator)
//   engine       = observation.timed(engine)                 steps; memory for all events is taken here
//   sink         = observation.timed(sink, …)                rank 0: requests; the metrics file begins
//        … the run …
//   observation.gather()                                     every rank's events to rank 0
//   observation.write(…)                                     rank 0: the files
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/command_line.h"
#include "launcher/ranks/periodic_file.h"
#include "launcher/ranks/rank_memory.h"
#include "launcher/ranks/rank_setup.h"
#include "launcher/ranks/request_log.h"
#include "launcher/ranks/run_metrics.h"
#include "launcher/ranks/step_clock.h"
#include "launcher/ranks/timed_bootstrap.h"
#include "runtime/trace/rank_report.h"
#include "runtime/trace/timed_communicator.h"

namespace lockstep::launcher {

/// Lives on the rank's main thread.
class Observation {
 public:
  /// Both are borrowed. The first events are taken from here on.
  Observation(const ObserveOptions& options, const RankContext& context);

  /// The context that the run is to use.
  const RankContext& context() const { return context_; }

  /// Once every rank knows the plan. @collective @blocking
  Result<void> begin(const Plan& plan);

  /// What to use instead of `communicator`; null stays null.
  device::Communicator* timed(device::Communicator* communicator);
  shards::StepEngine& timed(shards::StepEngine& engine);
  /// `submitted` requests with ids below `most` are about to be submitted.
  actors::Sink& timed(actors::Sink& sink, size_t submitted, size_t most);

  /// What the run came to, on rank 0 if it was watched; empty elsewhere. @collective @blocking
  Result<std::optional<trace::GroupReport>> gather();

  /// Writes what was asked for, on rank 0 after `gather`; the other ranks wait for it. `memory` is of all ranks,
  /// `tokens` of all answers. Fails on every rank if a file cannot be written. @collective @blocking
  Result<void> write(const std::optional<trace::GroupReport>& report, const std::vector<RankMemory>& memory,
                     int64_t tokens);

 private:
  RunMetrics live_metrics() const;
  Result<void> write_files(const trace::GroupReport& report, const std::vector<RankMemory>& memory, int64_t tokens);

  const ObserveOptions& options_;
  const RankContext& given_;
  trace::CollectiveLog collectives_;
  TimedBootstrap bootstrap_;
  const RankContext context_;
  std::string host_;
  std::vector<int> cores_;
  trace::Labels run_;
  bool has_one_clock_ = true;
  std::vector<trace::Ping> pings_;
  std::unique_ptr<trace::TimedCommunicator> communicator_;
  std::unique_ptr<StepClock> steps_;
  std::unique_ptr<RequestLog> requests_;
  double start_time_s_ = 0.0;
  std::vector<trace::RankTimeline> timelines_;  // rank 0, after `gather`
  std::unique_ptr<PeriodicFile> metrics_file_;  // reads those above
};

}  // namespace lockstep::launcher
