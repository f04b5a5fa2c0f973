// Where the ranks' time went: computing, communicating, or waiting for another rank.
//
// What a rank spends in a collective is waiting (until the last rank has come) and communication (from then on):
//
//   rank 0   ──compute──┤ enter · · · waiting · · · │ communication │ leave
//   rank 1   ────────────compute────────────┤ enter │ communication │ leave
//                                                   ^ the last rank enters
//
// One rank cannot see the others' entries, so each keeps its own, and they are compared after the run. That needs one
// clock: clock_alignment.h.
#pragma once

#include <span>
#include <vector>

#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// Where one rank's time went in a phase, in seconds.
struct PhaseSplit {
  double compute_s = 0.0;        // outside collectives
  double communication_s = 0.0;  // in collectives, from the entry of the last rank on
  double waiting_s = 0.0;        // in collectives, until the last rank entered

  double total_s() const { return compute_s + communication_s + waiting_s; }
  friend PhaseSplit operator+(const PhaseSplit& a, const PhaseSplit& b) {
    return {a.compute_s + b.compute_s, a.communication_s + b.communication_s, a.waiting_s + b.waiting_s};
  }
  friend bool operator==(const PhaseSplit&, const PhaseSplit&) = default;
};

/// When all ranks were there: inside the collective, whatever `last_entry` says (a broadcast's root need not wait).
TimePoint all_there(const CollectiveTimes& own, TimePoint last_entry);

/// When the last rank entered each of the collectives that all ranks recorded. The timelines share a clock.
std::vector<TimePoint> last_entries(std::span<const RankTimeline> ranks);

/// Where the steps of `phase` went. `last` is of `last_entries`; collectives beyond it count as communication, as do
/// those that found no room.
PhaseSplit split_of(const RankTimeline& rank, std::span<const TimePoint> last, StepPhase phase);

/// Where a phase of the process went, by the collectives that were entered in it.
PhaseSplit split_of(const RankTimeline& rank, std::span<const TimePoint> last, const PhaseSpan& span);

/// The steps of `phase` that served at least `fewest_slots`. Their time includes what lies between two of them
/// (messages, slot updates): from the end of the step before, if it counts too, else from its own begin.
StepTotals totals_of(std::span<const StepTimes> steps, StepPhase phase, int32_t fewest_slots = 0);

}  // namespace lockstep::trace
