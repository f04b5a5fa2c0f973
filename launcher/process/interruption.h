// Ctrl-C, SIGTERM and SIGUSR1 as events. A separate thread waits for them, so no handler interrupts other code.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace lockstep::launcher {

/// While it lives, SIGINT, SIGTERM and SIGUSR1 call `on_signal(number)` on its thread instead of ending the process.
/// Make it before other threads: it blocks the signals in the calling thread and in threads that this one starts.
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
