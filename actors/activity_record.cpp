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

trace::Activity ActivityRecord::read(size_t most_steps) const {
  trace::Activity activity{.slots = {}, .ranks = {}, .steps = {}, .read = SteadyClock().now()};
  std::vector<EndedStep> steps;
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);  // briefly: the executor takes it in every step
    activity.slots = slots_;
    activity.ranks = ranks_;
    number = std::max(oldest(), ended_ - static_cast<int64_t>(std::min(most_steps, kSteps)) + 1);
    for (int64_t step = number; step <= ended_; ++step) steps.push_back(steps_[place(step)]);
  }
  for (const EndedStep& step : steps) {
    activity.steps.push_back({.number = number++,
                              .kind = std::string(to_string(step.phase)),
                              .rows = step.rows,
                              .time = step.end - step.begin,
                              .ended = step.end});
  }
  return activity;
}

}  // namespace lockstep::actors
