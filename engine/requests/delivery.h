// Calls users' functions on a thread of its own, so that a slow one never holds up the ranks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lockstep::requests {

/// First in, first out. Thread-safe. The thread is started with the first call.
class Delivery {
 public:
  Delivery() = default;
  /// Makes the calls that are waiting, then ends the thread.
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  void post(std::function<void()> call);

  /// Waits until the calls that were posted so far are made. Not from one of them. @blocking
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
