#include "transport/mpi/funneled_queue.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "runtime/core/check.h"
#include "transport/waiting.h"

namespace lockstep::transport::mpi {
namespace {

constexpr int kYields = 200;  // before a wait sleeps
constexpr auto kSleep = std::chrono::milliseconds(1);

}  // namespace

FunneledQueue::Ran FunneledQueue::run(std::shared_ptr<PolledWork> work, const WaitOptions& wait) {
  const auto entry = std::make_shared<Entry>();  // shared with the queue
  entry->work = std::move(work);
  if (!is_owner()) {
    {
      const std::lock_guard lock(mutex_);
      queued_.push_back(entry);
      has_queued_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
    return wait_for(entry, wait);
  }
  const Serving serving(*this);
  taken_.push_back(entry);
  while (!entry->is_over) {
    take_queued();
    poll_all();
  }
  return Ran::kOver;
}

FunneledQueue::Ran FunneledQueue::wait_for(const std::shared_ptr<Entry>& entry, const WaitOptions& wait) {
  for (int look = 0; look < kYields; ++look) {
    if (entry->is_over.load(std::memory_order_acquire)) return Ran::kOver;
    sched_yield();
  }
  std::unique_lock lock(mutex_);
  Deadline deadline(*wait.clock, wait.deadline);
  uint64_t times_served = times_served_;
  while (!entry->is_over) {
    changed_.wait_for(lock, kSleep);
    if (is_serving_ || times_served != times_served_) {  // the work itself checks its deadline and the abort flag
      deadline = Deadline(*wait.clock, wait.deadline);
      times_served = times_served_;
      continue;
    }
    const bool is_aborted = wait.abort->is_raised();
    if (entry->is_over || (!is_aborted && !deadline.has_passed())) continue;
    std::erase(queued_, entry);
    entry->is_abandoned = true;
    return is_aborted ? Ran::kAborted : Ran::kUnserved;
  }
  return Ran::kOver;
}

FunneledQueue::Serving::Serving(FunneledQueue& queue) : queue_(queue) {
  LOCKSTEP_CHECK(queue.is_owner());
  {
    const std::lock_guard lock(queue.mutex_);
    LOCKSTEP_CHECK(!queue.is_serving_);
    queue.is_serving_ = true;
    ++queue.times_served_;
    for (const auto& entry : queue.taken_) {
      if (entry->is_abandoned) entry->work->abandon();
    }
    std::erase_if(queue.taken_, [](const auto& entry) { return entry->is_abandoned; });
  }
  queue.changed_.notify_all();
}

FunneledQueue::Serving::~Serving() {
  {
    const std::lock_guard lock(queue_.mutex_);
    queue_.is_serving_ = false;
  }
  queue_.changed_.notify_all();
}

void FunneledQueue::take_queued() {
  if (!has_queued_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  taken_.insert(taken_.end(), queued_.begin(), queued_.end());
  queued_.clear();
  has_queued_.store(false, std::memory_order_release);
}

void FunneledQueue::poll_all() {
  bool is_one_over = false;
  for (auto& entry : taken_) {
    if (!entry->work->poll()) continue;
    is_one_over = true;
    const std::lock_guard lock(mutex_);
    entry->is_over.store(true, std::memory_order_release);
  }
  if (!is_one_over) return;
  std::erase_if(taken_, [](const auto& entry) { return entry->is_over.load(); });
  changed_.notify_all();
}

void FunneledQueue::wait_for_work() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kSleep, [this] { return has_queued_.load(); });
}

Result<void> FunneledQueue::serve(const std::function<bool()>& until, const WaitOptions& wait) {
  const Serving serving(*this);
  Deadline deadline(*wait.clock, wait.deadline);
  for (int idle = 0; !until(); ++idle) {
    take_queued();
    if (!taken_.empty()) {
      poll_all();
      idle = 0;
      deadline = Deadline(*wait.clock, wait.deadline);
      continue;
    }
    if (const auto reason = wait.abort->reason()) return *reason;
    if (deadline.has_passed()) {
      return Error{ErrorKind::kDeadlineExceeded,
                   fmt::format("[transport/mpi] found no exchange between ranks for {:.3g} s, expected one or the end "
                               "of the wait; look at the other ranks, or raise the deadline",
                               to_seconds(wait.deadline))};
    }
    idle < kYields ? static_cast<void>(sched_yield()) : wait_for_work();
  }
  return ok();
}

}  // namespace lockstep::transport::mpi
