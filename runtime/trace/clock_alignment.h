// Alignment of the ranks' clocks. Ranks of one host share CLOCK_MONOTONIC; other clocks are compared by exchanges. No
// rank leaves an exchange before all ranks have entered it, so
//
//   rank 0, its clock    enter 0 ├───────────────┤ leave 0          enter r + offset ≤ leave 0
//   rank r, its clock        enter r ├────────────────┤ leave r     enter 0 ≤ leave r + offset
//
// and the offset lies in [enter 0 − leave r, leave 0 − enter r]. Of several exchanges the one with the narrowest bounds
// is used: the middle is the offset, half the width bounds its error. Offsets are measured before and after the run,
// interpolated linearly in between (clocks drift) and constant beyond.
#pragma once

#include <span>
#include <vector>

#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// The time to add to a rank's clock to get rank 0's clock.
struct ClockOffset {
  TimePoint at;      // of the rank's own clock
  Duration value{};  // to add
  Duration error{};  // upper bound, without drift during the exchange

  friend bool operator==(const ClockOffset&, const ClockOffset&) = default;
};

/// From the exchanges that both ranks took part in; at least one.
ClockOffset offset_by(std::span<const Ping> first, std::span<const Ping> own);

/// Converts `at` from a rank's clock to rank 0's.
TimePoint on_first_clock(TimePoint at, const ClockOffset& begin, const ClockOffset& end);

/// Converts all timelines to the clock of the first one and stores the error bounds. Ranks on the first one's host, and
/// ranks without pings, are unchanged.
void align(std::vector<RankTimeline>& ranks);

}  // namespace lockstep::trace
