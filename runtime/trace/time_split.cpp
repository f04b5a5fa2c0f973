#include "runtime/trace/time_split.h"

#include <algorithm>
#include <functional>

namespace lockstep::trace {
namespace {

/// Divides `total` by the collectives selected by `counts`; `unrecorded` is communication without log entries.
PhaseSplit split_by(const RankTimeline& rank, std::span<const TimePoint> last, Duration total, Duration unrecorded,
                    const std::function<bool(const CollectiveTimes&)>& counts) {
  Duration waiting{}, communication = unrecorded;
  for (size_t i = 0; i < rank.collectives.size(); ++i) {
    const CollectiveTimes& each = rank.collectives[i];
    if (!counts(each)) continue;
    const TimePoint there = i < last.size() ? all_there(each, last[i]) : each.enter;
    waiting += there - each.enter;
    communication += each.leave - there;
  }
  return {to_seconds(total - waiting - communication), to_seconds(communication), to_seconds(waiting)};
}

}  // namespace

TimePoint all_there(const CollectiveTimes& own, TimePoint last_entry) {
  return std::clamp(last_entry, own.enter, own.leave);
}

std::vector<TimePoint> last_entries(std::span<const RankTimeline> ranks) {
  std::vector<TimePoint> last;
  for (const RankTimeline& rank : ranks) {
    const bool is_first = &rank == &ranks.front();
    last.resize(is_first ? rank.collectives.size() : std::min(last.size(), rank.collectives.size()), TimePoint::min());
    for (size_t i = 0; i < last.size(); ++i) last[i] = std::max(last[i], rank.collectives[i].enter);
  }
  return last;
}

PhaseSplit split_of(const RankTimeline& rank, std::span<const TimePoint> last, StepPhase phase) {
  return split_by(rank, last, rank.steps_of(phase).time, rank.collectives_of(phase).unrecorded,
                  [&](const CollectiveTimes& each) { return each.phase == phase; });
}

PhaseSplit split_of(const RankTimeline& rank, std::span<const TimePoint> last, const PhaseSpan& span) {
  return split_by(rank, last, span.end - span.begin, Duration{},
                  [&](const CollectiveTimes& each) { return each.enter >= span.begin && each.leave <= span.end; });
}

StepTotals totals_of(std::span<const StepTimes> steps, StepPhase phase, int32_t fewest_slots) {
  StepTotals totals;
  const StepTimes* before = nullptr;  // if it is included
  for (const StepTimes& step : steps) {
    if (step.phase != phase || step.slots < fewest_slots) {
      before = nullptr;
      continue;
    }
    ++totals.steps;
    totals.tokens += step.tokens;
    totals.time += step.end - (before != nullptr ? before->end : step.begin);
    totals.on_device += step.on_device;
    before = &step;
  }
  return totals;
}

}  // namespace lockstep::trace
