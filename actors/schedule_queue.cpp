#include "actors/schedule_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/core/spin_limit.h"

namespace lockstep::actors {
namespace {

/// The raiser of the abort flag (a signal watcher, a communicator) may not notify this queue, so a sleeper polls it: at
/// first often, after a long wait seldom, since an idle engine must not use a core.
constexpr auto kAbortPoll = std::chrono::milliseconds(2);
constexpr auto kIdlePoll = std::chrono::milliseconds(64);

}  // namespace

void ScheduleQueue::push(Schedule schedule) {
  {
    std::lock_guard lock(mutex_);
    schedules_.push_back(std::move(schedule));
    size_.store(static_cast<int>(schedules_.size()), std::memory_order_release);
  }
  changed_.notify_one();
}

void ScheduleQueue::wake() {
  { std::lock_guard lock(mutex_); }  // a `pop` between its check and its sleep has the lock
  changed_.notify_all();
}

Result<Schedule> ScheduleQueue::pop(const AbortFlag& abort, IdleWait wait) {
  const auto spin_until = std::chrono::steady_clock::now() + wait.spin;
  while (size_.load(std::memory_order_acquire) == 0 && !abort.is_raised() &&
         std::chrono::steady_clock::now() < spin_until) {
    pause_core();
  }
  std::unique_lock lock(mutex_);
  for (auto poll = kAbortPoll; schedules_.empty() && !abort.is_raised(); poll = std::min(2 * poll, kIdlePoll)) {
    changed_.wait_for(lock, poll);
  }
  if (const auto reason = abort.reason()) return *reason;
  Schedule schedule = std::move(schedules_.front());
  schedules_.pop_front();
  size_.store(static_cast<int>(schedules_.size()), std::memory_order_relaxed);
  return schedule;
}

}  // namespace lockstep::actors
