#include "launcher/measure/bench/probed_steps.h"

namespace lockstep::launcher {
namespace {

Duration paused_before(std::span<const Pause> pauses, TimePoint time) {
  Duration paused = Duration::zero();
  for (const Pause& pause : pauses) {
    if (pause.begin < time) paused += pause.duration;
  }
  return paused;
}

}  // namespace

void ProbedSteps::restart(int64_t prefill_steps, int64_t decode_steps) {
  prefill_ = {.distance = prefill_steps / (kPrefillProbes + 1), .left = kPrefillProbes};
  decode_ = {.distance = decode_steps / (kDecodeProbes + 1), .left = kDecodeProbes};
  pauses_.clear();
}

Result<void> ProbedSteps::pause(Result<void> (LimitsProbe::*take)()) {
  const TimePoint begin = clock_.now();
  LOCKSTEP_TRY_VOID((probe_.*take)());
  pauses_.push_back({begin, clock_.now() - begin});
  return ok();
}

Result<shards::StepOutput> ProbedSteps::prefill(const shards::PrefillRows& rows, shards::StepTag tag) {
  auto output = inner().prefill(rows, tag);
  if (output.has_value() && prefill_.is_due()) LOCKSTEP_TRY_VOID(pause(&LimitsProbe::take_dots));
  return output;
}

Result<shards::StepOutput> ProbedSteps::decode(shards::StepTag tag) {
  auto output = inner().decode(tag);
  if (output.has_value() && decode_.is_due()) LOCKSTEP_TRY_VOID(pause(&LimitsProbe::take_reads));
  return output;
}

generation::TokenTimes without(std::span<const Pause> pauses, generation::TokenTimes times) {
  for (TimePoint& made : times.made) made -= paused_before(pauses, made);
  return times;
}

std::vector<trace::StepTimes> without(std::span<const Pause> pauses, std::span<const trace::StepTimes> steps) {
  std::vector<trace::StepTimes> shifted(steps.begin(), steps.end());
  for (trace::StepTimes& step : shifted) {
    const Duration paused = paused_before(pauses, step.begin);
    step.begin -= paused;
    step.end -= paused;
  }
  return shifted;
}

}  // namespace lockstep::launcher
