// Measured times of steps, and the bounds of schedules that follow from them. Pure: the caller reads the clock.
//
//   rows of a prefill step    16     32     64    128    256
//   measured                                24           90 ms
//   estimated                 14     18           46           on lines between those, and a decode step of 10 ms
//   within 40 ms                            64                 the budget of four decode steps
//
// Longer sequences make steps of every size slower, so a measurement scales those of the other sizes as well. Answers
// do not depend on the bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/planner.h"
#include "runtime/core/clock.h"

namespace lockstep::actors {

/// Smoothed times of one kind of steps, by their rows.
class StepTimes {
 public:
  /// `sizes`: rows, ascending, at least one.
  explicit StepTimes(std::vector<int64_t> sizes);

  /// Counts for the smallest size that holds `rows`.
  void note(int64_t rows, Duration time);

  bool is_measured() const;

  /// The estimated seconds of a step of `sizes()[size]` rows, if any size was measured. `floor`: seconds of a step of
  /// few rows.
  double estimate(size_t size, double floor) const;

  const std::vector<int64_t>& sizes() const { return sizes_; }

 private:
  std::vector<int64_t> sizes_;
  std::vector<std::optional<double>> times_;  // [sizes] seconds
};

/// Bounds prefill and score steps between two decode steps to a time, and the schedules in flight to about the same.
/// Long steps have their tokens agreed on at once.
class ScheduleTiming {
 public:
  /// A `budget` of zero is the time of four decode steps. `in_flight`: schedules that are sent ahead.
  ScheduleTiming(const PlannerLimits& limits, Duration budget, int32_t in_flight);

  void note_decode(Duration time);
  void note_prefill(int64_t rows, Duration time) { prefill_.note(rows, time); }
  void note_score(int64_t rows, Duration time) { score_.note(rows, time); }

  /// Small ones until the first measurements.
  ScheduleBounds bounds() const;

 private:
  std::optional<double> budget() const;
  int64_t rows_within_budget(const StepTimes& times) const;
  std::optional<double> longest_step() const;
  int32_t steps_of_schedule(std::optional<double> step, int32_t first, int32_t most) const;

  double wanted_;  // seconds; 0: four decode steps
  int32_t in_flight_;
  int32_t most_decodes_, most_prefills_;  // of a schedule
  StepTimes prefill_, score_;
  std::optional<double> decode_;  // seconds of a step, smoothed
};

}  // namespace lockstep::actors
