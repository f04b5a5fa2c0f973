// Probes between the steps of a repetition, so that speed changes affect both.
//
//   prefill  │ chunk │ dots │ chunk │ chunk │ dots │ chunk │
//   decode   │ steps │ reads │ steps │ reads │ steps │ reads │ steps │
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launcher/measure/bench/limits_probe.h"
#include "runtime/core/clock.h"
#include "runtime/generation/token_times.h"
#include "runtime/trace/timeline.h"
#include "shards/step_engine_decorator.h"

namespace lockstep::launcher {

/// The duration of the probes at one point of a repetition.
struct Pause {
  TimePoint begin;
  Duration duration = Duration::zero();
};

/// Probes before some of the steps. Every rank makes the same steps, so all ranks probe together. Used by one thread.
class ProbedSteps final : public shards::StepEngineDecorator {
 public:
  static constexpr int kPrefillProbes = 2, kDecodeProbes = 3;  // of a repetition

  /// Everything is borrowed.
  ProbedSteps(shards::StepEngine& inner, LimitsProbe& probe, const Clock& clock)
      : StepEngineDecorator(inner), probe_(probe), clock_(clock) {}

  /// Starts a repetition of about this many steps.
  void restart(int64_t prefill_steps, int64_t decode_steps);

  Result<shards::StepOutput> prefill(const shards::PrefillRows& rows, shards::StepTag tag) override;
  Result<shards::StepOutput> decode(shards::StepTag tag) override;

  /// The pauses of this repetition, in order.
  const std::vector<Pause>& pauses() const { return pauses_; }

 private:
  /// Steps with `left` probes at equal distances.
  struct Phase {
    int64_t distance = 0;  // 0: no probes
    int left = 0;
    int64_t step = 0;

    bool is_due() { return left > 0 && distance > 0 && ++step % distance == 0 && left-- > 0; }
  };

  Result<void> pause(Result<void> (LimitsProbe::*take)());

  LimitsProbe& probe_;
  const Clock& clock_;
  Phase prefill_, decode_;
  std::vector<Pause> pauses_;
};

/// The times with the pauses removed. `pauses` are of the same rank.
generation::TokenTimes without(std::span<const Pause> pauses, generation::TokenTimes times);
std::vector<trace::StepTimes> without(std::span<const Pause> pauses, std::span<const trace::StepTimes> steps);

}  // namespace lockstep::launcher
