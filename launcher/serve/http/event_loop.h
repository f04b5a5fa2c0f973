// The thread on which a server does everything except slow computations.
#pragma once

#include <functional>
#include <memory>

#include "runtime/core/clock.h"
#include "runtime/core/log.h"

namespace lockstep::serve {

/// A function that a loop will call. Destroying it cancels the call.
class Timer {
 public:
  virtual ~Timer() = default;
};

/// Where a computation waits for its turn. Each lane has one thread, so short computations do not wait for long ones.
enum class ComputeLane { kShort, kLong };

/// The functions are called one at a time, in the order of `post`, on the loop's thread.
class EventLoop {
 public:
  virtual ~EventLoop() = default;

  /// Thread-safe.
  virtual void post(std::function<void()> call) = 0;

  /// Calls `call` once, `delay` from now. On the loop's thread.
  virtual std::unique_ptr<Timer> after(Duration delay, std::function<void()> call) = 0;

  /// Runs `work` on another thread, then `done` on the loop's. For computations of more than a millisecond: tokenizing
  /// a long prompt, rendering a template. Both are called in the order of submission to the lane; `done` also when
  /// `work` throws. Thread-safe.
  virtual void compute(ComputeLane lane, std::function<void()> work, std::function<void()> done) = 0;
};

/// A loop and its thread's work: `run` calls the functions until `stop`. One that throws is logged; the others go on.
/// Outlives its timers.
class RunningLoop : public EventLoop {
 public:
  /// Returns after `stop`. Once. @blocking
  virtual void run() = 0;
  /// Thread-safe; also before `run`. Functions that were not called yet are dropped.
  virtual void stop() = 0;
};

/// `log` outlives the loop; without one, failures of functions are dropped.
std::unique_ptr<RunningLoop> make_loop(const Log* log = nullptr);

}  // namespace lockstep::serve
