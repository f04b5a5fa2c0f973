// A spinning barrier: threads start within a fraction of a microsecond of each other.
#pragma once

#include <sched.h>

#include <atomic>

namespace lockstep::probe {

/// One use. Thread-safe.
class StartLine {
 public:
  explicit StartLine(int threads) : missing_(threads) {}
  StartLine(const StartLine&) = delete;
  StartLine& operator=(const StartLine&) = delete;

  /// Returns when all threads have called it. After a long wait a thread yields its core, because there may be fewer
  /// cores than threads.
  void arrive() {
    constexpr int kSpins = 20000;
    missing_.fetch_sub(1, std::memory_order_acq_rel);
    for (int spins = 0; missing_.load(std::memory_order_acquire) > 0; ++spins) {
      if (spins > kSpins) sched_yield();
    }
  }

 private:
  std::atomic<int> missing_;
};

}  // namespace lockstep::probe
