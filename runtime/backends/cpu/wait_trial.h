// Whether the waits of a team sleep at once, where other threads want its cores.
//
// A worker that spins uses up its share of a core, and keeps it from others. Whether that is better than to sleep
// depends on them. Beside one busy program on two cores, two workers that sleep are moved to the free core, and are
// four times as fast; beside two programs there is none, and workers that spin are half as fast again. So both ways
// are tried:
//
//   quiet ── workers start late ──► trying: jobs that spin and jobs that sleep, in turn
//     ▲                                │ sleeping, if a third faster; otherwise spinning
//     └── none started late ───────────┴──► kept for some jobs, then tried again
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "runtime/core/clock.h"

namespace lockstep::cpu {

/// Used around the jobs of a team by one thread; `sleeps` by any. Times of jobs are compared with those of the same
/// kind alone.
class WaitTrial {
 public:
  static constexpr int kTogether = 8;  // jobs in which two late starts are no accident
  static constexpr int kTried = 2;     // jobs of each way
  static constexpr int kKept = 100;    // jobs of the faster way
  static constexpr int kOthers = 8;    // jobs of other kinds, after which one of theirs is tried

  /// `clock` is read around the jobs of trials, and outlives this object.
  explicit WaitTrial(const Clock& clock) : clock_(&clock) {}

  /// Before a job.
  void begin(const void* kind) {
    if (state_ == State::kTrying) begin_tried(kind);
  }
  /// After it. `late_starts`: of workers, so far; may wrap around.
  void end(uint32_t late_starts);

  /// Whether waits sleep at once.
  bool sleeps() const { return sleeps_.load(std::memory_order_relaxed); }

 private:
  enum class State { kQuiet, kTrying, kKept };
  void begin_tried(const void* kind);
  void end_quiet(uint32_t late);
  void end_tried(uint32_t late);
  void start(const void* kind);
  void enter(State state, bool sleeps);
  void let_waits_sleep(bool sleep) { sleeps_.store(sleep, std::memory_order_relaxed); }

  const Clock* clock_;
  State state_ = State::kQuiet;
  std::atomic<bool> sleeps_ = false;
  uint32_t seen_late_starts_ = 0;
  int jobs_ = 0;                // of the state
  int since_late_ = kTogether;  // jobs of kQuiet since a late start, at most kTogether

  // Of a trial.
  const void* kind_ = nullptr;
  int others_ = 0;         // jobs of other kinds
  bool is_tried_ = false;  // the job
  TimePoint began_{};
  std::array<Duration, 2> times_{};  // of jobs that spun, and that slept
  uint32_t late_of_spinning_ = 0;
};

}  // namespace lockstep::cpu
