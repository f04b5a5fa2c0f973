// Times and contents of a rank's steps, recorded by a step engine decorator. It allocates nothing during a step.
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <type_traits>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/trace/timeline.h"
#include "shards/step_engine_decorator.h"

namespace lockstep::observe {

/// The slots that are generating, tracked from the calls of an engine: padding of a finished slot is not a token.
class RunningSlots {
 public:
  explicit RunningSlots(int64_t slots) : slots_(static_cast<size_t>(slots)) {}

  void open(SlotId slot, const shards::SlotParameters& parameters);
  void close(SlotId slot) { slots_[static_cast<size_t>(slot.value)].running = false; }
  void decide(const shards::Decision& decision);
  /// Rows, slots and tokens of the step that made `output`.
  trace::StepTimes after_prefill(const shards::PrefillRows& rows, const shards::StepOutput& output);
  trace::StepTimes after_decode(const shards::StepOutput& output);

 private:
  struct Slot {
    bool running = false;  // prefilled and not finished
    int32_t left = 0;      // tokens that it may still generate
    std::vector<int32_t> eos_ids;
  };

  /// Returns whether the slot took the token; a slot stops running with its last token.
  static bool take(Slot& slot, int32_t token);

  std::vector<Slot> slots_;
};

/// Rows and slots of a step whose row r belongs to `slot[r]`; the rows of one slot are adjacent.
trace::StepTimes times_of(std::span<const int32_t> slot);

/// Used by the executor's thread, except `totals`.
class StepClock final : public shards::StepEngineDecorator {
 public:
  /// Borrows everything. Reserves memory for `capacity` steps. From here on `inner` measures its device's time.
  StepClock(shards::StepEngine& inner, trace::CollectiveLog& collectives, const Clock& clock, size_t capacity)
      : StepEngineDecorator(inner),
        collectives_(collectives),
        clock_(clock),
        steps_(capacity),
        running_(inner.slots()) {
    inner.time_device();
  }

  /// Discards all recorded steps and collectives.
  void restart();
  std::span<const trace::StepTimes> steps() const { return steps_.entries(); }
  int64_t dropped() const { return steps_.dropped(); }
  /// Totals of all steps so far, by phase. Any thread may call it.
  std::array<trace::StepTotals, trace::kStepPhases> totals() const;

  Result<void> open_slot(SlotId slot, const shards::SlotParameters& parameters) override {
    running_.open(slot, parameters);
    return inner().open_slot(slot, parameters);
  }
  Result<void> close_slot(SlotId slot) override {
    running_.close(slot);
    return inner().close_slot(slot);
  }
  Result<shards::StepOutput> prefill(const shards::PrefillRows& rows, shards::StepTag tag) override {
    return timed(
        trace::StepPhase::kPrefill, tag, [&] { return inner().prefill(rows, tag); },
        [&](const shards::StepOutput& output) { return running_.after_prefill(rows, output); });
  }
  /// Counts as a prefill step without tokens.
  Result<shards::ScoreOutput> score(const shards::ScoreRows& rows, shards::StepTag tag) override {
    return timed(
        trace::StepPhase::kPrefill, tag, [&] { return inner().score(rows, tag); },
        [&](const shards::ScoreOutput&) { return times_of(rows.slot); });
  }
  Result<shards::StepOutput> decode(shards::StepTag tag) override {
    return timed(
        trace::StepPhase::kDecode, tag, [&] { return inner().decode(tag); },
        [&](const shards::StepOutput& output) { return running_.after_decode(output); });
  }
  Result<void> decide(shards::Decision& decision) override {
    LOCKSTEP_TRY_VOID(inner().decide(decision));
    running_.decide(decision);
    return ok();
  }

 private:
  struct LiveTotals {
    std::atomic<int64_t> steps = 0, tokens = 0, nanoseconds = 0, on_device = 0, after = 0;
  };

  template <typename Step, typename Count>
  std::invoke_result_t<Step> timed(trace::StepPhase phase, shards::StepTag tag, Step&& step, Count&& count) {
    collectives_.set_phase(phase);
    const device::DeviceTime before = inner().device_time();
    const TimePoint begin = clock_.now();
    auto output = step();
    const TimePoint end = clock_.now();
    collectives_.set_phase(trace::StepPhase::kOutside);
    if (!output.has_value()) return output;
    trace::StepTimes counted = count(output.value());
    counted.on_device = inner().device_time() - before;
    add(phase, tag, begin, end, counted);
    return output;
  }
  void add(trace::StepPhase phase, shards::StepTag tag, TimePoint begin, TimePoint end, trace::StepTimes step);

  trace::CollectiveLog& collectives_;
  const Clock& clock_;
  trace::FixedLog<trace::StepTimes> steps_;
  RunningSlots running_;
  std::array<LiveTotals, trace::kStepPhases> totals_;
};

}  // namespace lockstep::observe
