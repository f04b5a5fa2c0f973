// The phases of a rank's run, one after the other, and how long each took.
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

/// `name` may be called from any thread; the phases follow each other on one.
class RunPhases {
 public:
  using Seconds = std::vector<std::pair<std::string, double>>;

  /// `on_enter` is called with each name when its phase has begun; it may throw.
  explicit RunPhases(const Clock& clock, std::function<void(const char*)> on_enter = {})
      : clock_(clock), on_enter_(std::move(on_enter)), begin_(clock.now()) {}
  RunPhases(const RunPhases&) = delete;
  RunPhases& operator=(const RunPhases&) = delete;

  /// Time that passed before this object was made, as a phase.
  void add_before(const std::string& name, double seconds) { seconds_.push_back({name, seconds}); }

  /// The phases of `before`, which has closed its last one, come first.
  void follow(const RunPhases& before) {
    seconds_ = before.seconds_;
    spans_ = before.spans_;
  }

  /// Ends the phase before, if there is one. `name` is a string literal. A phase that is entered again goes on.
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
  /// The closed phases in the order in which they were entered first.
  const Seconds& seconds() const { return seconds_; }
  /// When each of them ran, every entry by itself.
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
