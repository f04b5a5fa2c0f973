// Small timelines for the tests of this folder: times in milliseconds.
#pragma once

#include <vector>

#include "runtime/trace/timeline.h"

namespace lockstep::trace {

inline TimePoint at(int64_t ms) { return TimePoint(std::chrono::milliseconds(ms)); }

inline CollectiveTimes collective(StepPhase phase, int64_t enter, int64_t leave, uint64_t sequence = 1) {
  return {CollectiveKind::kAllReduce, phase, sequence, 64, at(enter), at(leave)};
}

/// Adds a step, and its values to the totals.
inline void add_step(RankTimeline& rank, const StepTimes& step) {
  rank.steps.push_back(step);
  StepTotals& totals = rank.step_totals[static_cast<size_t>(step.phase)];
  ++totals.steps;
  totals.tokens += step.tokens;
  totals.time += step.end - step.begin;
  totals.on_device += step.on_device;
}

inline void add_collective(RankTimeline& rank, const CollectiveTimes& each) {
  rank.collectives.push_back(each);
  CollectiveTotals& totals = rank.collective_totals[static_cast<size_t>(each.phase)];
  ++totals.count;
  totals.bytes += each.bytes;
}

/// Two ranks of one host: load (0 to 100), then a prefill step and two decode steps in schedules 0 and 1, with one
/// collective each. Rank 1 enters 4 ms after rank 0 every time.
inline std::vector<RankTimeline> two_ranks() {
  std::vector<RankTimeline> ranks(2);
  for (int rank = 0; rank < 2; ++rank) {
    RankTimeline& timeline = ranks[static_cast<size_t>(rank)];
    timeline.rank = rank;
    timeline.host = "node1";
    timeline.cores = {rank, 2};
    timeline.phases = {{"load", at(0), at(100)}, {"run", at(100), at(200)}};
    add_collective(timeline, {CollectiveKind::kExchange, StepPhase::kOutside, 1, 8, at(90 + rank * 4), at(96)});
    add_step(timeline, {StepPhase::kPrefill, 0, 0, 7, 2, 1, at(110), at(130)});
    add_collective(timeline, collective(StepPhase::kPrefill, 120 + rank * 4, 126, 1));
    for (int step = 0; step < 2; ++step) {
      const int begin = 140 + 20 * step;
      add_step(timeline, {StepPhase::kDecode, 1, step, 2, 2, 2, at(begin), at(begin + 10)});
      add_collective(timeline, collective(StepPhase::kDecode, begin + 2 + rank * 4, begin + 8, 2 + step));
    }
  }
  return ranks;
}

}  // namespace lockstep::trace
