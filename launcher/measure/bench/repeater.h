// The timed repetitions of a benchmark on one rank, with the same prompts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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

/// Limit of a repetition's collectives, including those of backends that split large ones, and schedule confirmations.
size_t most_collectives(const BenchShape& shape, const model::Plan& plan, const shards::ShardGraphs& graphs);

/// The times of each row's tokens. Rows are numbered from 0 in each session.
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

  // Valid when the session has ended.
  const std::vector<generation::TokenTimes>& rows() const { return times_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::vector<generation::TokenTimes> times_;
  std::optional<Error> error_;  // the first
};

/// The benchmark of one rank once weights are loaded. Used by the executor's thread.
class Repeater {
 public:
  /// Everything is borrowed.
  Repeater(const BenchCommand& command, group::Member& member, const model::Plan& plan, ProcessSession& session,
           shards::Shard& shard, trace::CollectiveLog& collectives, LimitsProbe& probe);

  /// Opens the session of the next repetition. With a barrier it begins when those of the other benchmarks do.
  /// @collective @blocking
  Result<void> open();

  /// Runs the repetition. Values that only rank 0 has are zero elsewhere. @collective @blocking
  Result<Repetition> repeat();
  /// Records the calls of `repeat` to the engine for `replay`.
  void record() { recorder_.start(); }
  void end_record() { recorded_ = recorder_.stop(); }
  /// Runs the recorded steps again without a session. @collective @blocking
  Result<PhaseSeconds> replay();
  int64_t dropped() const { return collectives_.dropped(); }
  /// The last repetition as Chrome trace events, on rank 0.
  std::string timeline(std::string_view communicator) const;

 private:
  /// @collective @blocking
  Result<void> wait_for_others();
  void submit_all(RowTimes& times);
  /// Runs the session and returns this rank's timeline. @collective @blocking
  Result<trace::RankTimeline> run_timed(RowTimes& times);
  /// Adds every rank's time split.
  void add_split(Repetition& repetition) const;
  PhaseSeconds seconds_of(std::span<const trace::StepTimes> steps) const;
  /// The decode steps with every sequence: while prompts remain, and at the end, some sequences are absent.
  trace::StepTotals full_decode_steps(std::span<const trace::StepTimes> steps) const;
  /// The full decode steps, or all decode steps if there was no full one.
  trace::StepTotals decode_steps(std::span<const trace::StepTimes> steps) const;

  const BenchCommand& command_;
  group::Member& member_;
  const model::Plan& plan_;
  ProcessSession& session_;
  std::unique_ptr<SessionRank> in_session_;  // from open() to repeat()
  shards::Shard& shard_;
  trace::CollectiveLog& collectives_;
  CallRecorder recorder_;
  EngineCalls recorded_;
  observe::StepClock steps_;
  ProbedSteps probed_;
  std::vector<trace::RankTimeline> timelines_;  // of the last repetition, on rank 0
};

}  // namespace lockstep::launcher
