#include "launcher/measure/bench/repeater.h"

#include <algorithm>

#include "launcher/ranks/binding.h"
#include "launcher/ranks/gathering.h"
#include "runtime/trace/chrome_trace.h"

namespace lockstep::launcher {
namespace {

/// Token ids that are the same in every run.
std::vector<int32_t> random_prompt(int64_t row, int64_t tokens, int64_t vocabulary) {
  std::vector<int32_t> ids;
  uint64_t state = static_cast<uint64_t>(row) + 1;
  for (int64_t i = 0; i < tokens; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    ids.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocabulary)));
  }
  return ids;
}

/// Steps of a repetition, at most: while prompts remain, decoding takes turns with them.
int64_t most_decode_steps(const BenchShape& shape) { return shape.batch * shape.new_tokens; }
int64_t most_prefill_steps(const BenchShape& shape, int64_t chunk) {
  return shape.batch * (shape.prompt_tokens / chunk + 2);
}

}  // namespace

size_t most_collectives(const BenchShape& shape, const Plan& plan, const shards::ShardGraphs& graphs) {
  constexpr int64_t kParts = 4;
  const int64_t decode = most_decode_steps(shape) * (graph::cost_of(graphs.decode.back()).collectives + 1);
  const int64_t prefill =
      most_prefill_steps(shape, plan.model.shard.chunk) * (graph::cost_of(graphs.prefill.back()).collectives + 1);
  return static_cast<size_t>(kParts * (decode + prefill));
}

Repeater::Repeater(const BenchCommand& command, const RankContext& context, const Plan& plan, RankMonitor& monitor,
                   shards::Shard& shard, trace::CollectiveLog& collectives)
    : command_(command),
      context_(context),
      plan_(plan),
      monitor_(monitor),
      shard_(shard),
      collectives_(collectives),
      recorder_(shard),
      steps_(recorder_, collectives, context.clock,
             static_cast<size_t>(most_decode_steps(command.shape) +
                                 most_prefill_steps(command.shape, plan.model.shard.chunk))) {}

Result<void> Repeater::open() {
  own_session_.reset();
  if (command_.kv == KvMemory::kFresh) shard_.store().release_caches();
  LOCKSTEP_TRY(session_, open_session(context_, own_session_));
  return context_.bootstrap.barrier();
}

void Repeater::submit_all(Answers& answers) {
  const BenchShape& shape = command_.shape;
  answers.mark_start();
  for (int64_t row = 0; row < shape.batch; ++row) {
    shards::SlotParameters parameters;
    parameters.max_new_tokens = static_cast<int32_t>(shape.new_tokens);
    session_->submit({.id = RequestId(row),
                      .ids = random_prompt(row, shape.prompt_tokens, plan_.model.spec.vocabulary),
                      .parameters = parameters},
                     answers);
  }
  session_->finish();
}

Result<trace::RankTimeline> Repeater::run_timed(Answers& answers) {
  const RankId rank(context_.bootstrap.rank());
  const transport::RankPlace& place = plan_.places[static_cast<size_t>(rank.value)];
  trace::RankTimeline mine{.rank = rank.value, .host = place.host, .cores = place.cores};
  const bool has_one_clock = on_one_host(plan_.places);
  if (!has_one_clock) {
    LOCKSTEP_TRY(mine.pings_at_begin, ping(context_.bootstrap, context_.clock));
  }
  steps_.restart();
  LOCKSTEP_TRY_VOID(run_session(context_, plan_, monitor_, *session_, steps_, [&] { submit_all(answers); }));
  if (!has_one_clock) {
    LOCKSTEP_TRY(mine.pings_at_end, ping(context_.bootstrap, context_.clock));
  }
  mine.steps.assign(steps_.steps().begin(), steps_.steps().end());
  mine.collectives.assign(collectives_.entries().begin(), collectives_.entries().end());
  mine.dropped_collectives = collectives_.dropped();
  mine.step_totals = steps_.totals();
  mine.collective_totals = collectives_.totals();
  return mine;
}

Result<Repetition> Repeater::repeat() {
  Answers answers(context_.clock, {.rows = static_cast<size_t>(command_.shape.batch)});
  LOCKSTEP_TRY(const trace::RankTimeline mine, run_timed(answers));
  LOCKSTEP_TRY(timelines_, gather_timelines(context_.bootstrap, mine));
  Repetition repetition;
  if (!is_first()) return repetition;
  for (const Answer& answer : answers.rows()) {
    if (answer.error) return *answer.error;
  }
  add_split(repetition);
  const auto [prefill_s, decode_s] = seconds_of_steps();
  repetition.prefill_s = prefill_s;
  repetition.decode_s = decode_s;
  repetition.decode_tokens = decode_steps().tokens;
  repetition.lacks_full_steps = full_decode_steps().steps == 0;
  repetition.ttft_s = answers.ttft_s().value_or(0.0);
  repetition.tpot_s = answers.tpot_s().value_or(0.0);
  return repetition;
}

Result<PhaseSeconds> Repeater::replay() {
  LOCKSTEP_TRY_VOID(context_.bootstrap.barrier());
  steps_.restart();
  const BoundThread bound(plan_.cores);
  LOCKSTEP_TRY_VOID(launcher::replay(recorded_, steps_));
  return seconds_of_steps();
}

std::string Repeater::timeline() const { return trace::to_chrome_json({.ranks = timelines_}); }

PhaseSeconds Repeater::seconds_of_steps() const {
  return {to_seconds(trace::totals_of(steps_.steps(), trace::StepPhase::kPrefill).time),
          to_seconds(decode_steps().time)};
}

trace::StepTotals Repeater::full_decode_steps() const {
  return trace::totals_of(steps_.steps(), trace::StepPhase::kDecode, static_cast<int32_t>(command_.shape.batch));
}

trace::StepTotals Repeater::decode_steps() const {
  const trace::StepTotals full = full_decode_steps();
  return full.steps > 0 ? full : trace::totals_of(steps_.steps(), trace::StepPhase::kDecode);
}

void Repeater::add_split(Repetition& repetition) const {
  const trace::GroupReport group = trace::report_of(timelines_);
  for (const trace::RankReport& rank : group.ranks) {
    repetition.ranks.push_back({rank.prefill.split, rank.decode.split});
    repetition.clock_error_s = std::max(repetition.clock_error_s, rank.clock_error_s);
  }
  repetition.stragglers = group.stragglers;
}

}  // namespace lockstep::launcher
