// Deadlines for calls of the runtime. A load waits for the other ranks, and a step for the collectives of a lost rank,
// both without limit. The calling thread is blocked, so a separate thread checks the clock and reports a passed
// deadline.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::nrt {

/// Watches the calls of one thread.
class CallWatch {
 public:
  struct Options {
    const AbortFlag* abort = nullptr;  // also polled; may be null
    /// Called on the watching thread with the reason: `kDeadlineExceeded`, or the flag's reason. It usually ends the
    /// process. Empty: nothing is watched.
    std::function<void(const Error&)> on_stuck;
    Duration period = std::chrono::milliseconds(100);  // polling interval
    Duration abort_grace = std::chrono::seconds(2);    // time for a call to end by itself after the flag was raised
  };

  explicit CallWatch(Options options);
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  /// Watches a call during its lifetime. Calls do not nest.
  class Guard {
   public:
    Guard(Guard&& other) noexcept : watch_(std::exchange(other.watch_, nullptr)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (watch_ != nullptr) watch_->end_call();
    }

   private:
    friend class CallWatch;
    explicit Guard(CallWatch& watch) : watch_(&watch) {}
    CallWatch* watch_;
  };

  /// Limits the call to `limit`; `operation` is "load decode (all ranks take part)" and outlives the guard. Makes no
  /// system call and does not allocate.
  [[nodiscard]] Guard watch(const std::string& operation, Duration limit);

 private:
  static constexpr int64_t kReported = -1;

  void end_call();
  void look();

  const Options options_;
  std::atomic<const std::string*> operation_ = nullptr;
  std::atomic<int64_t> limit_ns_ = 0;
  std::atomic<int64_t> until_ = 0;  // steady clock in nanoseconds; 0: no call; or kReported
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace lockstep::nrt
