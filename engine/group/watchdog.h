// Detection of hanging calls without a deadline (MPI_Init, MPI_Finalize).
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/core/clock.h"

namespace lockstep::group {

/// Calls `on_expiry` on its own thread unless it is destroyed within `limit`.
class Watchdog {
 public:
  Watchdog(Duration limit, std::function<void()> on_expiry)
      : thread_([this, limit, act = std::move(on_expiry)] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, limit, [this] { return done_; })) act();
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace lockstep::group
