// Progress of long work on rank 0, reported to the program from a separate thread.
//
//   expect(work, amount) ─► total ─┐
//   add(work, amount) ────► done ──┴─► the thread, ten times a second while done < total ─► on_progress
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/group.h"

namespace lockstep::group {

/// Thread-safe.
class ProgressReporter {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(100);

  explicit ProgressReporter(std::function<void(const Progress&)> on_progress, Duration interval = kInterval)
      : on_progress_(std::move(on_progress)), interval_(interval), thread_([this] { run(); }) {}
  /// Stops reporting.
  ~ProgressReporter();
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  /// Adds `amount` to the total.
  void expect(Progress::Work work, int64_t amount);
  /// Adds `amount` to the work done. Cheap enough for a step: no lock, no system call.
  void add(Progress::Work work, int64_t amount) { of(work).done.fetch_add(amount, std::memory_order_relaxed); }
  /// Ends the work; the rest will not be done.
  void finish(Progress::Work work);

 private:
  struct Count {
    std::atomic<int64_t> done = 0;
    int64_t total = 0;  // 0: nothing to do
  };

  Count& of(Progress::Work work) { return counts_[static_cast<size_t>(work)]; }
  void run();
  bool has_work() const;
  std::optional<Progress> take(Progress::Work work);

  const std::function<void(const Progress&)> on_progress_;
  const Duration interval_;
  std::mutex mutex_;  // guards the totals and is_over_
  std::condition_variable changed_;
  std::array<Count, Progress::kWorks.size()> counts_;
  bool is_over_ = false;
  std::thread thread_;  // uses the fields above
};

}  // namespace lockstep::group
