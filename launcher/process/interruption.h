// Ctrl-C, SIGTERM and SIGUSR1 as events: a thread of its own waits for them, so no handler runs in the middle of
// anything.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace lockstep::launcher {

/// While it lives, SIGINT, SIGTERM and SIGUSR1 call `on_signal(number)` on its thread instead of ending the process.
/// Make it before any other thread: the signals are blocked in the calling thread and in those that it starts.
class Interruption {
 public:
  explicit Interruption(std::function<void(int)> on_signal);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  std::atomic<bool> leaving_ = false;
  std::thread thread_;
};

}  // namespace lockstep::launcher
