// Detection of a straggling rank. In every collective one rank enters last; its cost is the time between the
// second-last entry and its own. Random delays spread over the ranks; a rank is reported if it is last nearly always
// and at a high cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// How one rank arrived at the collectives of a phase.
struct RankArrivals {
  int64_t last = 0;            // collectives in which it alone was the last to enter
  Duration cost{};             // time after the second-last entry, summed over those collectives
  Duration median_lateness{};  // of its entry relative to the median rank's; median over the collectives

  friend bool operator==(const RankArrivals&, const RankArrivals&) = default;
};

/// The ranks' arrivals at the collectives of one phase.
struct Arrivals {
  StepPhase phase = StepPhase::kDecode;
  int64_t collectives = 0;          // recorded by all ranks
  Duration time{};                  // of the steps, on rank 0
  std::vector<RankArrivals> ranks;  // by rank

  double last_share(size_t rank) const;
  double cost_share(size_t rank) const;  // of the phase's time
  friend bool operator==(const Arrivals&, const Arrivals&) = default;
};

/// The timelines share a clock (`align`).
Arrivals arrivals_at(const std::vector<RankTimeline>& ranks, StepPhase phase);

/// The rank that stands out: it is last more often than halfway between its fair share and always, and costs at least a
/// twentieth of the phase. Empty if there is none.
std::optional<size_t> straggler(const Arrivals& arrivals);

/// "rank 3 (node1) came last to 92 % of the collectives of decode and cost the others 31 % of its time; …", with
/// details on its cores, if a rank stands out; else empty.
std::string verdict(const Arrivals& arrivals, const std::vector<RankTimeline>& ranks);

}  // namespace lockstep::trace
