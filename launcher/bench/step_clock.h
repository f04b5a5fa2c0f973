// When each step of a rank began and ended: an engine that passes everything on to another and looks at the clock. For
// benchmarks; it allocates nothing during a step.
#pragma once

#include <vector>

#include "runtime/core/clock.h"
#include "runtime/device/timed_communicator.h"
#include "shards/engine.h"

namespace lockstep::launcher {

/// What a step is for. Also the tag of its collectives.
enum class StepPhase : int32_t { kPrefill = 0, kDecode = 1 };

/// One step of one rank.
struct StepTimes {
  StepPhase phase = StepPhase::kPrefill;
  TimePoint begin;
  TimePoint end;

  friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

/// How long the steps of `phase` took, with what lies between two steps of that phase (messages, slot updates): from
/// the end of the step before, if it was of the same phase, else from its own begin.
Duration phase_time(const std::vector<StepTimes>& steps, StepPhase phase);

/// How long the steps of `phase` took from begin to end.
Duration step_time(const std::vector<StepTimes>& steps, StepPhase phase);

class StepClock final : public shards::Engine {
 public:
  /// Borrows everything; `communicator` may be null in a group of one. Keeps room for `capacity` steps.
  StepClock(shards::Engine& inner, device::TimedCommunicator* communicator, const Clock& clock, size_t capacity)
      : inner_(inner), communicator_(communicator), clock_(clock) {
    steps_.reserve(capacity);
  }

  /// Forgets all steps and collectives.
  void restart();
  const std::vector<StepTimes>& steps() const { return steps_; }

  int64_t slots() const override { return inner_.slots(); }
  int64_t chunk() const override { return inner_.chunk(); }
  int64_t capacity() const override { return inner_.capacity(); }
  int64_t tokens_per_step() const override { return inner_.tokens_per_step(); }
  bool rows_of_one_slot() const override { return inner_.rows_of_one_slot(); }
  int64_t long_rope_after() const override { return inner_.long_rope_after(); }
  Result<void> open_slot(SlotId slot, const shards::SlotParameters& parameters) override {
    return inner_.open_slot(slot, parameters);
  }
  Result<void> close_slot(SlotId slot) override { return inner_.close_slot(slot); }
  Result<shards::StepOutput> prefill(const shards::PrefillRows& rows, shards::StepTag tag) override {
    return timed(StepPhase::kPrefill, [&] { return inner_.prefill(rows, tag); });
  }
  Result<shards::StepOutput> decode(shards::StepTag tag) override {
    return timed(StepPhase::kDecode, [&] { return inner_.decode(tag); });
  }
  Result<void> decide(shards::Decision& decision) override { return inner_.decide(decision); }
  bool all_finished() const override { return inner_.all_finished(); }
  Result<void> confirm(shards::StepTag tag) override { return inner_.confirm(tag); }
  void request_stop(SlotId slot) override { inner_.request_stop(slot); }

 private:
  template <typename Step>
  Result<shards::StepOutput> timed(StepPhase phase, Step&& step) {
    if (communicator_ != nullptr) communicator_->set_tag(static_cast<int32_t>(phase));
    const TimePoint begin = clock_.now();
    Result<shards::StepOutput> output = step();
    steps_.push_back({phase, begin, clock_.now()});
    if (communicator_ != nullptr) communicator_->set_tag(kBetweenSteps);
    return output;
  }

  static constexpr int32_t kBetweenSteps = -1;

  shards::Engine& inner_;
  device::TimedCommunicator* communicator_;
  const Clock& clock_;
  std::vector<StepTimes> steps_;
};

}  // namespace lockstep::launcher
