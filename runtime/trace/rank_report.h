// What a run's timelines come to, rank by rank: the split of its time, its collectives, how it came to them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/trace/straggler.h"
#include "runtime/trace/time_split.h"
#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// The steps of one phase on one rank.
struct PhaseReport {
  PhaseSplit split;
  StepTotals steps;
  CollectiveTotals collectives;
  RankArrivals arrivals;
  double last_share = 0.0;  // of the collectives, how many it was the last to enter
};

/// One rank.
struct RankReport {
  int rank = 0;
  std::string host;
  std::vector<std::pair<std::string, PhaseSplit>> phases;  // of the process, in their order; "run" holds the steps
  PhaseReport prefill, decode;
  uint64_t collectives_outside = 0;  // of set-up and between steps
  double clock_error_s = 0.0;
  int64_t dropped_steps = 0, dropped_collectives = 0;
};

/// All ranks.
struct GroupReport {
  std::vector<RankReport> ranks;
  std::vector<std::string> stragglers;  // a sentence for each phase in which a rank stands out
};

/// Pure. The timelines share a clock (`align`); they are those of all ranks, in order.
GroupReport report_of(const std::vector<RankTimeline>& ranks);

/// A table for people, with the sentences below it.
std::string to_table(const GroupReport& report);

}  // namespace lockstep::trace
