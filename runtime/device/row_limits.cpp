#include "runtime/device/row_limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::device {

RowLimits HeldPositions::of_attention(int64_t window, int64_t pinned_of_window) const {
  const int64_t turning = capacity - pinned;
  if (!is_ring || window > turning || pinned_of_window > pinned) return {.slots = slots, .positions = capacity};
  return {.slots = slots,
          .positions = std::numeric_limits<int32_t>::max(),
          .window = window,
          .turning = turning,
          .capacity = capacity};
}

Result<void> RowCheck::run(std::span<const int32_t> slots, std::span<const int32_t> positions) {
  std::ranges::fill(of_slot_, Range{});
  for (size_t row = 0; row < slots.size(); ++row) {
    if (slots[row] < 0) continue;
    const int64_t at = positions[row];
    if (slots[row] >= limits_.slots || at < 0 || at >= limits_.positions) return row_outside(row, slots[row], at);
    if (limits_.in_runs) {
      Range& run = of_slot_[static_cast<size_t>(slots[row])];
      const bool goes_on = row > 0 && slots[row - 1] == slots[row];
      if (run.size() > 0 && (!goes_on || at != run.end)) return run_broken(row, slots[row], at, run.end);
      run = run.size() == 0 ? Range{at, at + 1} : Range{run.begin, at + 1};
      continue;
    }
    if (limits_.window == 0) continue;
    Range& step = of_slot_[static_cast<size_t>(slots[row])];
    step = step.size() == 0 ? Range{at, at + 1} : Range{std::min(step.begin, at), std::max(step.end, at + 1)};
    const bool is_lost = step.end > limits_.capacity && step.size() + limits_.window - 1 > limits_.turning;
    if (is_lost) return window_lost(slots[row], step);
  }
  return ok();
}

Error RowCheck::row_outside(size_t row, int64_t slot, int64_t position) const {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[{}] cannot run row {}: found slot {} and position {}, expected a slot below {} and a position "
                      "below {}",
                      component_, row, slot, position, limits_.slots, limits_.positions)};
}

Error RowCheck::run_broken(size_t row, int64_t slot, int64_t position, int64_t expected) const {
  return {
      ErrorKind::kInvalidArgument,
      fmt::format("[{}] cannot run row {}: found slot {} and position {}, expected the row after its position {}: a "
                  "recurrence takes the rows of a slot one after the other",
                  component_, row, slot, position, expected - 1)};
}

Error RowCheck::window_lost(int64_t slot, const Range& step) const {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[{}] cannot run slot {}: found positions {} in one step, expected at most {} rows, since a ring "
                      "of {} rows must keep a window of {}; use a smaller chunk",
                      component_, slot, to_string(step), limits_.turning - limits_.window + 1, limits_.turning,
                      limits_.window)};
}

}  // namespace lockstep::device
