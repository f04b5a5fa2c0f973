#include "launcher/rows/row_recorder.h"

#include <utility>

namespace lockstep::launcher {

RowRecorder::RowRecorder(RowResults& results, std::function<void(const Error&)> on_failure,
                         std::function<void(uint64_t)> on_recorded)
    : results_(results),
      on_failure_(std::move(on_failure)),
      on_recorded_(std::move(on_recorded)),
      thread_([this] { run(); }) {}

RowRecorder::~RowRecorder() {
  if (thread_.joinable()) (void)finish();
}

bool RowRecorder::wait_for_room(size_t limit, std::optional<TimePoint> end) {
  std::unique_lock lock(mutex_);
  const auto has_room = [&] { return under_way_ < limit; };
  const auto may_go_on = [&] { return stopped_ || error_ || has_room(); };
  end ? void(changed_.wait_until(lock, *end, may_go_on)) : changed_.wait(lock, may_go_on);
  if (stopped_ || error_ || !has_room()) return false;
  ++under_way_;
  return true;
}

void RowRecorder::admit() {
  std::lock_guard lock(mutex_);
  ++under_way_;
}

void RowRecorder::put(journal::RowResult row) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(row));
  }
  changed_.notify_all();
}

void RowRecorder::release() {
  {
    std::lock_guard lock(mutex_);
    --under_way_;
  }
  changed_.notify_all();
}

void RowRecorder::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

Result<void> RowRecorder::finish() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (error_) return *error_;
  return ok();
}

void RowRecorder::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::vector<journal::RowResult> rows = std::exchange(waiting_, {});
    if (error_) continue;  // no row can be added after an error
    lock.unlock();
    const Result<void> appended = results_.append(rows);
    if (appended.has_value()) on_recorded_(results_.done());
    lock.lock();
    if (appended.has_value()) {
      under_way_ -= rows.size();
    } else {
      error_ = appended.error();
      lock.unlock();
      on_failure_(appended.error());
      lock.lock();
    }
    changed_.notify_all();
  }
}

}  // namespace lockstep::launcher
