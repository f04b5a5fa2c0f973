// One clock for all ranks. Ranks of one host share CLOCK_MONOTONIC; those of other hosts are compared by exchanges that
// everyone enters and leaves. Nobody leaves an exchange before everybody has entered it, so
//
//   rank 0, its clock    enter 0 ├───────────────┤ leave 0          enter r + offset ≤ leave 0
//   rank r, its clock        enter r ├────────────────┤ leave r     enter 0 ≤ leave r + offset
//
// and the offset lies in [enter 0 − leave r, leave 0 − enter r]. Of several exchanges the one with the narrowest bounds
// counts: its middle is the offset, half its width bounds the error. The offset is taken before and after the run; in
// between it moves along a line, for clocks drift, and beyond it stays.
#pragma once

#include <span>
#include <vector>

#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// What has to be added to a rank's time to make it rank 0's.
struct ClockOffset {
  TimePoint at;      // of the rank's own clock
  Duration value{};  // to add
  Duration error{};  // at most, if the clock did not drift within the exchange

  friend bool operator==(const ClockOffset&, const ClockOffset&) = default;
};

/// By the exchanges that both ranks took part in; at least one.
ClockOffset offset_by(std::span<const Ping> first, std::span<const Ping> own);

/// `at` of a rank's clock as rank 0's.
TimePoint on_first_clock(TimePoint at, const ClockOffset& begin, const ClockOffset& end);

/// Puts all timelines on the clock of the first and notes how far off each may be. Ranks on the host of the first, and
/// those without pings, stay as they are.
void align(std::vector<RankTimeline>& ranks);

}  // namespace lockstep::trace
