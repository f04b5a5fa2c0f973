// The repetitions of a benchmark on one rank: the same prompts through a session again and again, and the clocks around
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/plan.h"
#include "engine/observe/step_clock.h"
#include "engine/session.h"
#include "launcher/measure/bench/bench.h"
#include "launcher/measure/bench/bench_report.h"
#include "launcher/measure/bench/limits_probe.h"
#include "launcher/measure/bench/probed_steps.h"
#include "launcher/measure/bench/replay.h"
#include "runtime/generation/token_times.h"
#include "runtime/trace/rank_report.h"
#include "runtime/trace/timed_communicator.h"
#include "shards/shard.h"

namespace lockstep::launcher {

/// Collectives of a repetition, with room for backends that cut large ones and for the confirmations of schedules.
size_t most_collectives(const BenchShape& shape, const model::Plan& plan, const shards::ShardGraphs& graphs);

/// When the tokens of each row were made. The session is its own clock's: rows are numbered from 0.
class RowTimes final : public actors::Sink {
 public:
  RowTimes(int64_t rows, TimePoint submitted)
      : times_(static_cast<size_t>(rows), {.submitted = submitted, .made = {}}) {}

  actors::Verdict on_token(RequestId row, const actors::MadeToken& token) override {
    times_.at(static_cast<size_t>(row.value)).made.push_back(token.made);
    return actors::Verdict::kContinue;
  }
  void on_finish(RequestId, generation::FinishReason, const std::optional<Error>& error) override {
    if (error && !error_) error_ = error;
  }

  // When the session has ended.
  const std::vector<generation::TokenTimes>& rows() const { return times_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::vector<generation::TokenTimes> times_;
  std::optional<Error> error_;  // the first
};

/// One rank's benchmark once weights are loaded. Lives on the executor's thread.
class Repeater {
 public:
  /// Everything is borrowed.
  Repeater(const BenchCommand& command, group::Member& member, const model::Plan& plan, ProcessSession& session,
           shards::Shard& shard, trace::CollectiveLog& collectives, LimitsProbe& probe);

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
  void submit_all(RowTimes& times);
  /// Runs the session and says when what happened on this rank. @collective @blocking
  Result<trace::RankTimeline> run_timed(RowTimes& times);
  /// Where every rank's time went.
  void add_split(Repetition& repetition) const;
  PhaseSeconds seconds_of(std::span<const trace::StepTimes> steps) const;
  /// The decode steps in which every sequence took part: while prompts remain, and at the end, some are not there.
  trace::StepTotals full_decode_steps(std::span<const trace::StepTimes> steps) const;
  /// Those, or all decode steps if there was none.
  trace::StepTotals decode_steps(std::span<const trace::StepTimes> steps) const;

  const BenchCommand& command_;
  group::Member& member_;
  const model::Plan& plan_;
  ProcessSession& session_;
  shards::Shard& shard_;
  trace::CollectiveLog& collectives_;
  CallRecorder recorder_;
  EngineCalls recorded_;
  observe::StepClock steps_;
  ProbedSteps probed_;
  std::vector<trace::RankTimeline> timelines_;  // of the last repetition, on rank 0
};

}  // namespace lockstep::launcher
