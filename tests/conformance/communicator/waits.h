// Wait options for tests, with a clock that can run fast.
#pragma once

#include <atomic>

#include "transport/bootstrap.h"

namespace lockstep::conformance {

/// The machine's clock, until switched to run fast. Then every reading is ten seconds later than the previous one, so a
/// deadline passes after a few looks and no test waits for one.
class FastClock final : public Clock {
 public:
  TimePoint now() const override {
    const TimePoint real = steady_.now();
    return is_fast_ ? real + ++looks_ * std::chrono::seconds(10) : real;
  }
  void run_fast() { is_fast_ = true; }

 private:
  SteadyClock steady_;
  std::atomic<bool> is_fast_ = false;
  mutable std::atomic<int64_t> looks_ = 0;
};

/// An abort flag, a clock and the options that point to them.
struct Ends {
  AbortFlag abort;
  FastClock clock;
  transport::WaitOptions wait{.abort = &abort, .clock = &clock, .deadline = std::chrono::seconds(60)};
};

}  // namespace lockstep::conformance
