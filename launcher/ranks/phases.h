// How long each part of a run took: start-up by phase, time to the first token, time per token. Rank 0 reports it.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/clock.h"

namespace lockstep::launcher {

/// The phases of a process, one after the other. The name of the current one is what an exit record says. `name()` may
/// be called from any thread; the phases follow each other on one.
class Phases {
 public:
  explicit Phases(const Clock& clock) : clock_(clock), begin_(clock.now()) {}
  Phases(const Phases&) = delete;
  Phases& operator=(const Phases&) = delete;

  /// Ends the phase before, if there is one. `name` is a string literal.
  void enter(const char* name) {
    close();
    current_.store(name, std::memory_order_relaxed);
  }
  /// Ends the last phase.
  void close() {
    const TimePoint now = clock_.now();
    if (const char* name = current_.load(std::memory_order_relaxed); name != kNone) {
      seconds_.emplace_back(name, to_seconds(now - begin_));
    }
    current_.store(kNone, std::memory_order_relaxed);
    begin_ = now;
  }

  const char* name() const { return current_.load(std::memory_order_relaxed); }
  /// The closed phases in order.
  const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }

 private:
  static constexpr const char* kNone = "start";

  const Clock& clock_;
  TimePoint begin_;
  std::atomic<const char*> current_ = kNone;
  std::vector<std::pair<std::string, double>> seconds_;
};

}  // namespace lockstep::launcher
