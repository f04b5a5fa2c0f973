// Timelines of one rank as values: process phases, steps and collectives.
//
// Ranks record their own, and rank 0 compares them after the run.
//
//   phases        ──load──┤──compile──┤──session──┤─────────────────── run ───────────────────┤
//   steps                                             │ prefill │   │ decode │ decode │ decode │
//   collectives   │exchange│     │exchange│              ││ ││ ││      │ ││ ││   …
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "runtime/device/device_time.h"
#include "runtime/trace/fixed_log.h"

namespace lockstep::trace {

/// The kind of a step, or of the step around a collective.
enum class StepPhase : int32_t { kPrefill = 0, kDecode = 1, kOutside = 2 };
inline constexpr size_t kStepPhases = 3;
/// "prefill", "decode", "outside".
std::string_view to_string(StepPhase phase);

/// Collective operations: the model's collectives, and the exchanges of set-up.
enum class CollectiveKind : int32_t { kAllReduce, kAllGather, kBroadcast, kBarrier, kExchange, kSetupBarrier };
inline constexpr size_t kCollectiveKinds = 6;
/// "all_reduce", "all_gather", "broadcast", "barrier", "exchange", "setup_barrier".
std::string_view to_string(CollectiveKind kind);

/// One collective of one rank. The i-th of a rank matches the i-th of every other rank.
struct CollectiveTimes {
  CollectiveKind kind = CollectiveKind::kBarrier;
  StepPhase phase = StepPhase::kOutside;
  uint64_t sequence = 0;  // among the model's collectives, or among those of set-up; from 1
  uint64_t bytes = 0;     // contributed by this rank
  TimePoint enter;
  TimePoint leave;

  friend bool operator==(const CollectiveTimes&, const CollectiveTimes&) = default;
};

/// One step of one rank.
struct StepTimes {
  StepPhase phase = StepPhase::kPrefill;
  int32_t schedule = 0;
  int32_t step = 0;
  int32_t rows = 0;    // token rows, without padding
  int32_t slots = 0;   // used by those rows
  int32_t tokens = 0;  // produced by the step
  TimePoint begin;
  TimePoint end;
  device::DeviceTime on_device = {};  // zeros: the host computes, or it is not measured

  friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

/// A phase of a process.
struct PhaseSpan {
  std::string name;
  TimePoint begin;
  TimePoint end;

  friend bool operator==(const PhaseSpan&, const PhaseSpan&) = default;
};

/// All steps of a phase, including those dropped from a full log.
struct StepTotals {
  int64_t steps = 0;
  int64_t tokens = 0;
  Duration time{};
  device::DeviceTime on_device = {};

  bool is_on_device() const { return on_device.device > Duration::zero(); }
  /// The host's time until the device began: inputs, the launch, and what a wait notices late.
  Duration before_device() const { return time - on_device.device - on_device.after; }
  friend bool operator==(const StepTotals&, const StepTotals&) = default;
};

/// All collectives of a phase, including those dropped from a full log.
struct CollectiveTotals {
  int64_t count = 0;
  uint64_t bytes = 0;
  Duration unrecorded{};  // inside the dropped ones

  friend bool operator==(const CollectiveTotals&, const CollectiveTotals&) = default;
};

/// When this rank entered and left one exchange of all ranks, to compare clocks.
struct Ping {
  TimePoint enter;
  TimePoint leave;

  friend bool operator==(const Ping&, const Ping&) = default;
};

/// The collectives of one rank, recorded as they happen. Used by one thread; allocates only in its constructor.
class CollectiveLog {
 public:
  explicit CollectiveLog(size_t capacity) : log_(capacity) {}

  /// Sets the phase of the following collectives.
  void set_phase(StepPhase phase) { phase_ = phase; }
  void add(CollectiveKind kind, uint64_t sequence, uint64_t bytes, TimePoint enter, TimePoint leave) {
    CollectiveTotals& totals = totals_[static_cast<size_t>(phase_)];
    ++totals.count;
    totals.bytes += bytes;
    if (log_.is_full()) totals.unrecorded += leave - enter;
    log_.add({kind, phase_, sequence, bytes, enter, leave});
  }
  /// Clears everything except the phase.
  void clear() {
    log_.clear();
    totals_ = {};
  }

  std::span<const CollectiveTimes> entries() const { return log_.entries(); }
  int64_t dropped() const { return log_.dropped(); }
  const std::array<CollectiveTotals, kStepPhases>& totals() const { return totals_; }

 private:
  FixedLog<CollectiveTimes> log_;
  StepPhase phase_ = StepPhase::kOutside;
  std::array<CollectiveTotals, kStepPhases> totals_{};
};

/// One rank's run. Times are on this rank's clock until `align` (clock_alignment.h).
struct RankTimeline {
  int rank = 0;
  std::string host;
  std::vector<int> cores;
  std::vector<PhaseSpan> phases;
  std::vector<StepTimes> steps;
  std::vector<CollectiveTimes> collectives;
  int64_t dropped_steps = 0;
  int64_t dropped_collectives = 0;
  std::array<StepTotals, kStepPhases> step_totals{};
  std::array<CollectiveTotals, kStepPhases> collective_totals{};
  std::vector<Ping> pings_at_begin;  // from the exchanges after start-up …
  std::vector<Ping> pings_at_end;    // … and after the run; empty if all ranks share a host
  Duration clock_error{};            // after `align`: error bound of this rank's times

  const StepTotals& steps_of(StepPhase phase) const { return step_totals[static_cast<size_t>(phase)]; }
  const CollectiveTotals& collectives_of(StepPhase phase) const {
    return collective_totals[static_cast<size_t>(phase)];
  }

  friend bool operator==(const RankTimeline&, const RankTimeline&) = default;
};

/// Serialisation of a timeline between ranks of one build. Malformed bytes fail with `kInternal`.
std::string pack(const RankTimeline& timeline);
Result<RankTimeline> unpack_timeline(std::string_view bytes);

}  // namespace lockstep::trace
