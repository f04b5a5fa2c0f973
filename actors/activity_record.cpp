#include "actors/activity_record.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::actors {
namespace {

size_t place(int64_t step) { return static_cast<size_t>(step - 1) % ActivityRecord::kSteps; }

}  // namespace

void ActivityRecord::set_slots(std::vector<trace::SlotActivity> slots) {
  const std::lock_guard lock(mutex_);
  slots_.swap(slots);
}

void ActivityRecord::set_ranks(std::vector<trace::RankActivity> ranks) {
  const std::lock_guard lock(mutex_);
  ranks_.swap(ranks);
}

void ActivityRecord::note(const EndedStep& step) {
  const std::lock_guard lock(mutex_);
  steps_[place(++ended_)] = step;
}

std::vector<EndedStep> ActivityRecord::steps_after(int64_t& seen) const {
  const std::lock_guard lock(mutex_);
  std::vector<EndedStep> steps;
  for (int64_t number = std::max(seen + 1, oldest()); number <= ended_; ++number) {
    steps.push_back(steps_[place(number)]);
  }
  seen = ended_;
  return steps;
}

trace::Activity ActivityRecord::read() const {
  const std::lock_guard lock(mutex_);
  trace::Activity activity{.slots = slots_, .ranks = ranks_, .steps = {}, .read = SteadyClock().now()};
  for (int64_t number = oldest(); number <= ended_; ++number) {
    const EndedStep& step = steps_[place(number)];
    activity.steps.push_back({.number = number,
                              .kind = std::string(to_string(step.phase)),
                              .rows = step.rows,
                              .time = step.end - step.begin,
                              .ended = step.end});
  }
  return activity;
}

}  // namespace lockstep::actors
