// The repetitions of a benchmark on one rank: the same prompts through a session again and again, and the clocks around
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/generate/answers.h"
#include "launcher/measure/bench/bench_report.h"
#include "launcher/measure/bench/replay.h"
#include "launcher/ranks/rank_setup.h"
#include "launcher/ranks/step_clock.h"
#include "runtime/trace/rank_report.h"
#include "runtime/trace/timed_communicator.h"

namespace lockstep::launcher {

/// Collectives of a repetition, with room for backends that cut large ones and for the confirmations of schedules.
size_t most_collectives(const BenchShape& shape, const Plan& plan, const shards::ShardGraphs& graphs);

/// One rank's benchmark once weights are loaded. Lives on the executor's thread.
class Repeater {
 public:
  /// Everything is borrowed.
  Repeater(const BenchCommand& command, const RankContext& context, const Plan& plan, RankMonitor& monitor,
           shards::Shard& shard, trace::CollectiveLog& collectives);

  /// Opens the session of the next repetition. @collective @blocking
  Result<void> open();

  /// Runs it. What only rank 0 knows stays zero elsewhere. @collective @blocking
  Result<Repetition> repeat();
  /// Keeps what `repeat` asks of the engine, for `replay`.
  void record() { recorder_.start(); }
  void end_record() { recorded_ = recorder_.stop(); }
  /// The recorded steps once more, by themselves. @collective @blocking
  Result<PhaseSeconds> replay();
  int64_t dropped() const { return collectives_.dropped(); }
  /// The last repetition as Chrome trace events, on rank 0.
  std::string timeline() const;

 private:
  bool is_first() const { return context_.bootstrap.rank() == 0; }
  void submit_all(Answers& answers);
  /// Runs the session and says when what happened on this rank. @collective @blocking
  Result<trace::RankTimeline> run_timed(Answers& answers);
  /// Where every rank's time went.
  void add_split(Repetition& repetition) const;
  PhaseSeconds seconds_of_steps() const;
  /// The decode steps in which every sequence took part: while prompts remain, and at the end, some are not there.
  trace::StepTotals full_decode_steps() const;
  /// Those, or all decode steps if there was none.
  trace::StepTotals decode_steps() const;

  const BenchCommand& command_;
  const RankContext& context_;
  const Plan& plan_;
  RankMonitor& monitor_;
  shards::Shard& shard_;
  trace::CollectiveLog& collectives_;
  CallRecorder recorder_;
  EngineCalls recorded_;
  StepClock steps_;
  std::vector<trace::RankTimeline> timelines_;  // of the last repetition, on rank 0
  std::unique_ptr<actors::Session> own_session_;
  actors::Session* session_ = nullptr;
};

}  // namespace lockstep::launcher
