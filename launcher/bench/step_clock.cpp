#include "launcher/bench/step_clock.h"

namespace lockstep::launcher {

Duration phase_time(const std::vector<StepTimes>& steps, StepPhase phase) {
  Duration time{};
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].phase != phase) continue;
    const bool follows = i > 0 && steps[i - 1].phase == phase;
    time += steps[i].end - (follows ? steps[i - 1].end : steps[i].begin);
  }
  return time;
}

Duration step_time(const std::vector<StepTimes>& steps, StepPhase phase) {
  Duration time{};
  for (const StepTimes& step : steps) {
    if (step.phase == phase) time += step.end - step.begin;
  }
  return time;
}

void StepClock::restart() {
  steps_.clear();
  if (communicator_ != nullptr) communicator_->restart();
}

}  // namespace lockstep::launcher
