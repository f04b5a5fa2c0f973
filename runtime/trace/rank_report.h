// A report of a run by rank: time split, collectives, arrival at collectives.
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
  double last_share = 0.0;  // fraction of the collectives that it was the last to enter
};

/// One rank.
struct RankReport {
  int rank = 0;
  std::string host;
  std::vector<std::pair<std::string, PhaseSplit>> phases;  // of the process, in order; "run" holds the steps
  PhaseReport prefill, decode;
  uint64_t collectives_outside = 0;  // during set-up and between steps
  double clock_error_s = 0.0;
  int64_t dropped_steps = 0, dropped_collectives = 0;
};

/// All ranks.
struct GroupReport {
  std::vector<RankReport> ranks;
  std::vector<std::string> stragglers;  // one sentence for each phase with a straggler
};

/// Pure. Takes all ranks' timelines in rank order, on one clock (`align`).
GroupReport report_of(const std::vector<RankTimeline>& ranks);

/// A readable table, followed by the sentences.
std::string to_table(const GroupReport& report);

}  // namespace lockstep::trace
