// Which rows of a step a cache can take and show.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"

namespace lockstep::device {

/// A cache's limits for the rows of a step.
struct RowLimits {
  int64_t slots = 0;      // upper bound of slots
  int64_t positions = 0;  // upper bound of positions
  int64_t window = 0;     // attention to a ring: keys that a row sees; otherwise 0, and the rest is unused
  int64_t turning = 0;    // positions in the ring after its pinned rows
  int64_t capacity = 0;   // number of positions up to which it holds all of them
  bool in_runs = false;   // a recurrence: the rows of a slot are adjacent, their positions consecutive

  friend auto operator<=>(const RowLimits&, const RowLimits&) = default;
};

/// The positions that a cache holds.
struct HeldPositions {
  int64_t slots = 0;
  int64_t capacity = 0;
  bool is_ring = false;
  int64_t pinned = 0;  // of a ring

  /// The rows that can be appended.
  RowLimits of_append() const {
    return {.slots = slots, .positions = is_ring ? std::numeric_limits<int32_t>::max() : capacity};
  }
  /// The rows that can attend. A ring holds all keys of a window as long as it has room for the rows of a step; other
  /// caches hold every position. `window` 0: all.
  RowLimits of_attention(int64_t window, int64_t pinned_of_window) const;
};

/// Rows of a step that continue one slot's sequence.
struct RowRun {
  int64_t slot = 0;
  int64_t first = 0;     // row of the step
  int64_t count = 0;     // of rows
  int64_t position = 0;  // of the first

  friend bool operator==(const RowRun&, const RowRun&) = default;
};

/// Calls `visit` for every run of adjacent rows of one slot; padding (slots below 0) belongs to none.
template <typename Visit>
void for_each_run(std::span<const int32_t> slots, std::span<const int32_t> positions, Visit visit) {
  for (size_t row = 0; row < slots.size();) {
    size_t end = row + 1;
    while (end < slots.size() && slots[end] == slots[row]) ++end;
    if (slots[row] >= 0) {
      visit(RowRun{slots[row], static_cast<int64_t>(row), static_cast<int64_t>(end - row), positions[row]});
    }
    row = end;
  }
}

/// Checks the rows of steps, without allocating.
class RowCheck {
 public:
  /// `component` starts the messages.
  RowCheck(std::string component, const RowLimits& limits)
      : component_(std::move(component)),
        limits_(limits),
        of_slot_(limits.window > 0 || limits.in_runs ? static_cast<size_t>(limits.slots) : 0) {}

  /// Fails with `kInvalidArgument` naming the first row outside the limits. Slots below 0 are padding.
  Result<void> run(std::span<const int32_t> slots, std::span<const int32_t> positions);

 private:
  Error row_outside(size_t row, int64_t slot, int64_t position) const;
  Error window_lost(int64_t slot, const Range& step) const;
  Error run_broken(size_t row, int64_t slot, int64_t position, int64_t expected) const;

  std::string component_;
  RowLimits limits_;
  std::vector<Range> of_slot_;  // the positions of a step, where a window can be lost or a run broken
};

}  // namespace lockstep::device
