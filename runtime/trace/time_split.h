// The ranks' time, divided into computing, communicating and waiting for other ranks.
//
// A rank in a collective waits until the last rank has entered, and communicates from then on:
//
//   rank 0   ──compute──┤ enter · · · waiting · · · │ communication │ leave
//   rank 1   ────────────compute────────────┤ enter │ communication │ leave
//                                                   ^ the last rank enters
//
// A rank cannot see the others' entries, so each rank records its own, and they are compared after the run on one clock
// (clock_alignment.h).
#pragma once

#include <span>
#include <vector>

#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// One rank's time in a phase, in seconds.
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

/// The time from which all ranks were inside, clamped to the own collective (a broadcast's root need not wait).
TimePoint all_there(const CollectiveTimes& own, TimePoint last_entry);

/// The last entry of each collective that all ranks recorded. The timelines share a clock.
std::vector<TimePoint> last_entries(std::span<const RankTimeline> ranks);

/// The split of the steps of `phase`. `last` is from `last_entries`; collectives beyond it, and collectives dropped
/// from a full log, count as communication.
PhaseSplit split_of(const RankTimeline& rank, std::span<const TimePoint> last, StepPhase phase);

/// The split of a phase of the process, by the collectives entered in it.
PhaseSplit split_of(const RankTimeline& rank, std::span<const TimePoint> last, const PhaseSpan& span);

/// The steps of `phase` with at least `fewest_slots`. A step's time includes the gap before it (messages, slot
/// updates): it starts at the end of the previous step if that is included, else at its own start.
StepTotals totals_of(std::span<const StepTimes> steps, StepPhase phase, int32_t fewest_slots = 0);

}  // namespace lockstep::trace
