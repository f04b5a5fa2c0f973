#include "launcher/measure/bench/repeater.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/group/binding.h"
#include "engine/group/gathering.h"
#include "engine/observe/run_metrics.h"
#include "launcher/process/process_barrier.h"
#include "launcher/process/rank_0_work.h"
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

constexpr auto kOthersLimit = std::chrono::minutes(10);  // until the others have loaded

/// Limit of a repetition's steps: while prompts remain, prefill and decode steps alternate.
int64_t most_decode_steps(const BenchShape& shape) { return shape.batch * shape.new_tokens; }
int64_t most_prefill_steps(const BenchShape& shape, int64_t chunk) {
  return shape.batch * (shape.prompt_tokens / chunk + 2);
}

}  // namespace

size_t most_collectives(const BenchShape& shape, const model::Plan& plan, const shards::ShardGraphs& graphs) {
  constexpr int64_t kParts = 4;
  const int64_t decode = most_decode_steps(shape) * (graph::cost_of(graphs.decode.back()).collectives + 1);
  const int64_t prefill =
      most_prefill_steps(shape, plan.model.shard.chunk) * (graph::cost_of(graphs.prefill.back()).collectives + 1);
  return static_cast<size_t>(kParts * (decode + prefill));
}

Repeater::Repeater(const BenchCommand& command, group::Member& member, const model::Plan& plan, ProcessSession& session,
                   shards::Shard& shard, trace::CollectiveLog& collectives, LimitsProbe& probe)
    : command_(command),
      member_(member),
      plan_(plan),
      session_(session),
      shard_(shard),
      collectives_(collectives),
      recorder_(shard),
      steps_(recorder_, collectives, member.clock(),
             static_cast<size_t>(most_decode_steps(command.shape) +
                                 most_prefill_steps(command.shape, plan.model.shard.chunk))),
      probed_(steps_, probe, member.clock()) {}

Result<void> Repeater::open() {
  if (command_.kv == KvMemory::kFresh) shard_.store().release_caches();
  LOCKSTEP_TRY(in_session_, session_.open(member_));
  return command_.barrier ? wait_for_others() : member_.bootstrap().barrier();
}

/// Rank 0 waits for the other benchmarks, which the limit of the other ranks' waits is not made for.
Result<void> Repeater::wait_for_others() {
  const BarrierEnd end(command_.barrier.value());
  LOCKSTEP_TRY_VOID(member_.all_succeeded(member_.leads() ? end.arrive() : ok()));
  Result<bool> waited = false;
  const auto look = [&](Duration step) {
    waited = end.wait(step);
    return !waited.has_value() || waited.value();
  };
  LOCKSTEP_TRY(const bool is_over, wait_for_rank_0(member_.bootstrap(), kOthersLimit, look));
  LOCKSTEP_TRY_VOID(member_.all_succeeded(waited.has_value() ? Result<void>(ok()) : waited.error()));
  if (is_over) return ok();
  return Error{ErrorKind::kDeadlineExceeded,
               fmt::format("[launcher] cannot begin together with the other benchmarks: found them absent for {} s, "
                           "expected all at the barrier",
                           std::chrono::seconds(kOthersLimit).count())};
}

void Repeater::submit_all(RowTimes& times) {
  const BenchShape& shape = command_.shape;
  std::vector<actors::Request> requests;
  for (int64_t row = 0; row < shape.batch; ++row) {
    shards::SlotParameters parameters;
    parameters.max_new_tokens = static_cast<int32_t>(shape.new_tokens);
    requests.push_back({.id = RequestId(row),
                        .ids = random_prompt(row, shape.prompt_tokens, plan_.model.spec.vocabulary),
                        .parameters = parameters});
  }
  session_.session().submit(std::move(requests), times);
  session_.session().finish();
}

Result<trace::RankTimeline> Repeater::run_timed(RowTimes& times) {
  const int rank = member_.rank();
  const device::RankPlace& place = plan_.places[static_cast<size_t>(rank)];
  trace::RankTimeline mine{.rank = rank, .host = place.host, .cores = place.cores};
  const bool has_one_clock = device::on_one_host(plan_.places);
  if (!has_one_clock) {
    LOCKSTEP_TRY(mine.pings_at_begin, group::ping(member_.bootstrap(), member_.clock()));
  }
  steps_.restart();
  const TimePoint begin = member_.clock().now();
  const BenchShape& shape = command_.shape;
  probed_.restart(shape.batch * shape.prompt_tokens / plan_.model.shard.chunk, shape.new_tokens - 1);
  if (member_.leads()) submit_all(times);
  const std::unique_ptr<SessionRank> in_session = std::move(in_session_);
  LOCKSTEP_TRY_VOID(in_session->run(plan_.cores, probed_));
  mine.phases = {{"run", begin, member_.clock().now()}};
  if (!has_one_clock) {
    LOCKSTEP_TRY(mine.pings_at_end, group::ping(member_.bootstrap(), member_.clock()));
  }
  mine.steps.assign(steps_.steps().begin(), steps_.steps().end());
  mine.collectives.assign(collectives_.entries().begin(), collectives_.entries().end());
  mine.dropped_collectives = collectives_.dropped();
  mine.step_totals = steps_.totals();
  mine.collective_totals = collectives_.totals();
  return mine;
}

Result<Repetition> Repeater::repeat() {
  RowTimes times(command_.shape.batch, member_.clock().now());
  LOCKSTEP_TRY(const trace::RankTimeline mine, run_timed(times));
  LOCKSTEP_TRY(timelines_, group::gather_timelines(member_.bootstrap(), mine));
  Repetition repetition;
  if (!member_.leads()) return repetition;
  if (times.error()) return *times.error();
  add_split(repetition);
  const std::vector<trace::StepTimes> steps = without(probed_.pauses(), steps_.steps());
  const auto [prefill_s, decode_s] = seconds_of(steps);
  repetition.begin_s = to_seconds(steps_.steps().front().begin.time_since_epoch());
  repetition.end_s = to_seconds(steps_.steps().back().end.time_since_epoch());
  repetition.prefill_s = prefill_s;
  repetition.decode_s = decode_s;
  repetition.decode_tokens = decode_steps(steps).tokens;
  repetition.lacks_full_steps = full_decode_steps(steps).steps == 0;
  std::vector<generation::TokenTimes> rows;
  for (const generation::TokenTimes& row : times.rows()) rows.push_back(without(probed_.pauses(), row));
  repetition.ttft_s = to_seconds(rows.front().time_to_first_token().value_or(Duration::zero()));
  repetition.tpot_s = to_seconds(generation::time_per_output_token(rows).value_or(Duration::zero()));
  return repetition;
}

Result<PhaseSeconds> Repeater::replay() {
  LOCKSTEP_TRY_VOID(member_.bootstrap().barrier());
  steps_.restart();
  const group::BoundThread bound(plan_.cores);
  LOCKSTEP_TRY_VOID(launcher::replay(recorded_, steps_));
  return seconds_of(steps_.steps());
}

std::string Repeater::timeline(std::string_view communicator) const {
  trace::RunTrace run{.ranks = timelines_, .facts = observe::build_labels()};
  std::ranges::move(observe::run_labels(plan_, command_.engine.backend), std::back_inserter(run.facts));
  run.facts.emplace_back("communicator", communicator);
  return trace::to_chrome_json(run);
}

PhaseSeconds Repeater::seconds_of(std::span<const trace::StepTimes> steps) const {
  return {to_seconds(trace::totals_of(steps, trace::StepPhase::kPrefill).time), to_seconds(decode_steps(steps).time)};
}

trace::StepTotals Repeater::full_decode_steps(std::span<const trace::StepTimes> steps) const {
  return trace::totals_of(steps, trace::StepPhase::kDecode, static_cast<int32_t>(command_.shape.batch));
}

trace::StepTotals Repeater::decode_steps(std::span<const trace::StepTimes> steps) const {
  const trace::StepTotals full = full_decode_steps(steps);
  return full.steps > 0 ? full : trace::totals_of(steps, trace::StepPhase::kDecode);
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
