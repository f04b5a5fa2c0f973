// The present state of a session, which its actors and rank 0's executor write and any thread reads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "actors/phase.h"
#include "runtime/core/clock.h"
#include "runtime/trace/activity.h"

namespace lockstep::actors {

/// A step of rank 0.
struct EndedStep {
  Phase phase = Phase::kIdle;  // kPrefill, kScore or kDecode
  int64_t rows = 0;
  TimePoint begin, end;
};

/// Thread-safe. Allocates nothing when a step ends.
class ActivityRecord {
 public:
  static constexpr size_t kSteps = 4096;  // that it remembers

  void set_slots(std::vector<trace::SlotActivity> slots);
  void set_ranks(std::vector<trace::RankActivity> ranks);
  void note(const EndedStep& step);

  /// With at most the last `most_steps` steps.
  trace::Activity read(size_t most_steps = kSteps) const;

  /// The steps after number `seen`, oldest first, as far as they are remembered. Sets `seen` to the last one's number.
  std::vector<EndedStep> steps_after(int64_t& seen) const;

 private:
  /// The number of the oldest step that is remembered.
  int64_t oldest() const { return std::max<int64_t>(1, ended_ - static_cast<int64_t>(kSteps) + 1); }

  mutable std::mutex mutex_;
  std::vector<trace::SlotActivity> slots_;
  std::vector<trace::RankActivity> ranks_;
  std::array<EndedStep, kSteps> steps_{};
  int64_t ended_ = 0;  // steps so far; step n is at (n − 1) mod kSteps
};

}  // namespace lockstep::actors
