#include "runtime/trace/clock_alignment.h"

#include <algorithm>

namespace lockstep::trace {
namespace {

/// The bounds of an offset from one exchange.
struct Bounds {
  Duration low, high;

  Bounds(const Ping& first, const Ping& own) : low(first.enter - own.leave), high(first.leave - own.enter) {}
  Duration width() const { return high - low; }
};

void move(RankTimeline& rank, const ClockOffset& begin, const ClockOffset& end) {
  const auto shift = [&](TimePoint& at) { at = on_first_clock(at, begin, end); };
  for (PhaseSpan& each : rank.phases) shift(each.begin), shift(each.end);
  for (StepTimes& each : rank.steps) shift(each.begin), shift(each.end);
  for (CollectiveTimes& each : rank.collectives) shift(each.enter), shift(each.leave);
}

}  // namespace

ClockOffset offset_by(std::span<const Ping> first, std::span<const Ping> own) {
  const size_t count = std::min(first.size(), own.size());
  LOCKSTEP_CHECK(count > 0, first.size(), own.size());
  size_t best = 0;
  for (size_t i = 1; i < count; ++i) {
    if (Bounds(first[i], own[i]).width() < Bounds(first[best], own[best]).width()) best = i;
  }
  const Bounds bounds(first[best], own[best]);
  return {.at = own[best].enter, .value = bounds.low + bounds.width() / 2, .error = bounds.width() / 2};
}

TimePoint on_first_clock(TimePoint at, const ClockOffset& begin, const ClockOffset& end) {
  const double length = to_seconds(end.at - begin.at);
  const double part = length > 0 ? std::clamp(to_seconds(at - begin.at) / length, 0.0, 1.0) : 0.0;
  const double drift = part * static_cast<double>((end.value - begin.value).count());
  return at + begin.value + Duration(static_cast<int64_t>(drift));
}

void align(std::vector<RankTimeline>& ranks) {
  const RankTimeline& first = ranks.front();
  for (RankTimeline& rank : ranks) {
    if (rank.host == first.host || rank.pings_at_begin.empty() || rank.pings_at_end.empty()) continue;
    const ClockOffset begin = offset_by(first.pings_at_begin, rank.pings_at_begin);
    const ClockOffset end = offset_by(first.pings_at_end, rank.pings_at_end);
    move(rank, begin, end);
    rank.clock_error = std::max(begin.error, end.error);
  }
}

}  // namespace lockstep::trace
