// Clocks and deadlines, passed as arguments.
//
// Code that waits takes a `Clock`, so a test drives it without sleeping. A `Deadline` is a point in time on that clock;
// every wait in Lockstep has one.
#pragma once

#include <chrono>

namespace lockstep {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Monotonic time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }
};

/// A clock advanced by its caller; for tests. Not thread-safe.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{};
};

/// The time at which a wait fails. Borrows its clock.
class Deadline {
 public:
  Deadline(const Clock& clock, Duration from_now) : clock_(&clock), at_(clock.now() + from_now) {}

  bool has_passed() const { return clock_->now() >= at_; }
  Duration remaining() const { return at_ - clock_->now(); }

 private:
  const Clock* clock_;
  TimePoint at_;
};

/// Seconds as a floating-point number, for reports.
inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

/// Seconds as a duration.
inline Duration duration_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace lockstep
