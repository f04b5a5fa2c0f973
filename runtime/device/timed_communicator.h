// A communicator that notes when each collective was entered and left, for benchmarks. Apart from two clock readings a
// call it is the one behind it.
//
// What a rank spends in a collective is waiting (until the last rank has come) and communication (from then on):
//
//   rank 0   ──compute──┤ enter · · · waiting · · · │ communication │ leave
//   rank 1   ────────────compute────────────┤ enter │ communication │ leave
//                                                   ^ the last rank enters
//
// One rank cannot see the others' entries, so it keeps its own, and `split_times` compares them after the run. That
// needs one clock: ranks of one host share CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/device/communicator.h"

namespace lockstep::device {

/// One collective of one rank.
struct CollectiveTimes {
  int32_t tag = 0;  // what `set_tag` said: the phase of the run
  TimePoint enter;
  TimePoint leave;

  friend bool operator==(const CollectiveTimes&, const CollectiveTimes&) = default;
};

/// Time inside collectives.
struct CollectiveSplit {
  Duration waiting{};
  Duration communication{};

  friend bool operator==(const CollectiveSplit&, const CollectiveSplit&) = default;
};

/// Divides the time of `own` collectives. `last_entries[i]` is when the last rank entered collective i, on the same
/// clock; only collectives tagged `tag` count. A rank never waits longer than it was inside.
CollectiveSplit split_times(std::span<const CollectiveTimes> own, std::span<const TimePoint> last_entries, int32_t tag);

/// Used by one thread, but for `last_operation`. The other communicator outlives it.
class TimedCommunicator final : public Communicator {
 public:
  /// Keeps the times of `capacity` collectives from `restart` on and drops those that follow; memory is taken here, so
  /// that a step allocates nothing.
  TimedCommunicator(Communicator& inner, const Clock& clock, size_t capacity);

  /// Forgets all times.
  void restart();
  /// What the collectives from now on belong to.
  void set_tag(int32_t tag) { tag_ = tag; }
  /// In the order in which they were entered.
  std::span<const CollectiveTimes> times() const { return times_; }
  /// Collectives that found no room.
  int64_t dropped() const { return dropped_; }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string name() const override { return inner_.name(); }
  Result<void> all_reduce(const TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          Stream stream) override;
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          Stream stream) override;
  Result<void> broadcast(std::span<std::byte> bytes, int root, Stream stream) override;
  Result<void> barrier(Stream stream) override;
  OperationMark last_operation() const override { return inner_.last_operation(); }

 private:
  template <typename Collective>
  Result<void> timed(Collective&& collective);

  Communicator& inner_;
  const Clock& clock_;
  int32_t tag_ = 0;
  int64_t dropped_ = 0;
  std::vector<CollectiveTimes> times_;
};

}  // namespace lockstep::device
