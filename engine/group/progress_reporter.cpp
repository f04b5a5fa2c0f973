#include "engine/group/progress_reporter.h"

#include <algorithm>

namespace lockstep::group {

ProgressReporter::~ProgressReporter() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ProgressReporter::expect(Progress::Work work, int64_t amount) {
  {
    std::lock_guard lock(mutex_);
    Count& count = of(work);
    if (count.total == 0) count.done = 0;  // added after the last report
    count.total += amount;
  }
  changed_.notify_all();
}

void ProgressReporter::finish(Progress::Work work) {
  std::lock_guard lock(mutex_);
  of(work).done = of(work).total;
}

bool ProgressReporter::has_work() const {
  return std::ranges::any_of(counts_, [](const Count& count) { return count.total > 0; });
}

/// The progress of `work`; none without a total. The last report resets the counts.
std::optional<Progress> ProgressReporter::take(Progress::Work work) {
  std::lock_guard lock(mutex_);
  Count& count = of(work);
  if (count.total == 0) return std::nullopt;
  const Progress progress{work, std::min(count.done.load(), count.total), count.total};
  if (progress.done == progress.total) count.done = count.total = 0;
  return progress;
}

void ProgressReporter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_over_ || has_work(); });
    changed_.wait_for(lock, interval_, [this] { return is_over_; });
    if (is_over_) return;
    lock.unlock();
    for (const Progress::Work work : Progress::kWorks) {
      if (const auto progress = take(work)) on_progress_(*progress);
    }
    lock.lock();
  }
}

}  // namespace lockstep::group
