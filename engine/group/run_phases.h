// The phases of a rank's run, in order, and their durations.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/trace/timeline.h"

namespace lockstep::group {

/// `name` may be called from any thread; phases are entered on one thread.
class RunPhases {
 public:
  using Seconds = std::vector<std::pair<std::string, double>>;

  /// `on_enter` is called with each name when its phase has begun; it may throw.
  explicit RunPhases(const Clock& clock, std::function<void(const char*)> on_enter = {})
      : clock_(clock), on_enter_(std::move(on_enter)), begin_(clock.now()) {}
  RunPhases(const RunPhases&) = delete;
  RunPhases& operator=(const RunPhases&) = delete;

  /// Adds time that passed before this object was made as a phase.
  void add_before(const std::string& name, double seconds) { seconds_.push_back({name, seconds}); }

  /// Puts the phases of `before`, which is closed, first.
  void follow(const RunPhases& before) {
    seconds_ = before.seconds_;
    spans_ = before.spans_;
  }

  /// Ends the previous phase, if there is one. `name` is a string literal. Re-entering a phase adds to its duration.
  void enter(const char* name) {
    close();
    current_.store(name, std::memory_order_relaxed);
    if (on_enter_) on_enter_(name);
  }

  /// Ends the last phase.
  void close() {
    const TimePoint now = clock_.now();
    if (const char* name = current_.load(std::memory_order_relaxed); name != kNone) {
      auto known = std::ranges::find(seconds_, name, &std::pair<std::string, double>::first);
      if (known == seconds_.end()) known = seconds_.insert(known, {name, 0.0});
      known->second += to_seconds(now - begin_);
      spans_.push_back({name, begin_, now});
    }
    current_.store(kNone, std::memory_order_relaxed);
    begin_ = now;
  }

  const char* name() const { return current_.load(std::memory_order_relaxed); }
  /// The closed phases in the order of their first entry.
  const Seconds& seconds() const { return seconds_; }
  /// The time span of every entry.
  const std::vector<trace::PhaseSpan>& spans() const { return spans_; }

 private:
  static constexpr const char* kNone = "start";

  const Clock& clock_;
  const std::function<void(const char*)> on_enter_;
  TimePoint begin_;
  std::atomic<const char*> current_ = kNone;
  Seconds seconds_;
  std::vector<trace::PhaseSpan> spans_;
};

}  // namespace lockstep::group
