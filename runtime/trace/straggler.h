// Which rank the others wait for. In every collective one rank comes last; what the collective would have gained had it
// come with the one before it is that rank's cost. Coming last by chance spreads over the ranks; a rank that does so
// nearly every time, and dearly, is named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// How one rank came to the collectives of a phase.
struct RankArrivals {
  int64_t last = 0;            // collectives that it was alone the last to enter
  Duration cost{};             // how much later than the last but one, in all of those
  Duration median_lateness{};  // of its entry, after the median of the ranks' entries; middle over the collectives

  friend bool operator==(const RankArrivals&, const RankArrivals&) = default;
};

/// The ranks' arrivals at the collectives of one phase.
struct Arrivals {
  StepPhase phase = StepPhase::kDecode;
  int64_t collectives = 0;          // that all ranks recorded
  Duration time{};                  // of the steps, on rank 0
  std::vector<RankArrivals> ranks;  // by rank

  double last_share(size_t rank) const;
  double cost_share(size_t rank) const;  // of the phase's time
  friend bool operator==(const Arrivals&, const Arrivals&) = default;
};

/// The timelines share a clock (`align`).
Arrivals arrivals_at(const std::vector<RankTimeline>& ranks, StepPhase phase);

/// The rank that stands out: last to more than half of what chance leaves between its fair share and all, and at a cost
/// of at least a twentieth of the phase. Empty if there is none.
std::optional<size_t> straggler(const Arrivals& arrivals);

/// "rank 3 (node1) came last to 92 % of the collectives of decode and cost the others 31 % of its time; …" when a rank
/// stands out, with what is known of its cores; else empty.
std::string verdict(const Arrivals& arrivals, const std::vector<RankTimeline>& ranks);

}  // namespace lockstep::trace
