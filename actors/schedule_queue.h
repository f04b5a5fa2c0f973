// The queue between a shard actor and its executor: schedules are pushed on an actor's thread and popped on the
// executor's. The executor spins for a bounded time, then sleeps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "actors/schedule.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::actors {

/// How long an executor that has no schedule spins before it sleeps. Zero where ranks outnumber cores.
struct IdleWait {
  Duration spin = std::chrono::microseconds(20);
};

/// First in, first out. Thread-safe.
class ScheduleQueue {
 public:
  ScheduleQueue() = default;
  ScheduleQueue(const ScheduleQueue&) = delete;
  ScheduleQueue& operator=(const ScheduleQueue&) = delete;

  void push(Schedule schedule);

  /// Makes a sleeping `pop` check the abort flag at once.
  void wake();

  /// The oldest schedule, or the reason of `abort` as soon as it is raised. Without requests the wait has no deadline;
  /// the abort flag ends it.
  /// @blocking
  Result<Schedule> pop(const AbortFlag& abort, IdleWait wait = {});

 private:
  std::atomic<int> size_ = 0;  // read by a spinning `pop` without the lock
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Schedule> schedules_;
};

}  // namespace lockstep::actors
