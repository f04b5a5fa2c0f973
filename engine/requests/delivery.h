// A separate thread for callers' functions, so that slow ones never delay the ranks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lockstep::requests {

/// Calls functions first in, first out. Thread-safe. The first call starts the thread.
class Delivery {
 public:
  Delivery() = default;
  /// Makes the queued calls, then ends the thread.
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  void post(std::function<void()> call);

  /// Waits until the calls posted so far are made. Must not be called from one of them. @blocking
  void wait_idle();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  bool is_calling_ = false;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace lockstep::requests
