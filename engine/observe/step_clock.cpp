#include "engine/observe/step_clock.h"

#include <algorithm>

namespace lockstep::observe {

using trace::StepPhase, trace::StepTimes, trace::StepTotals;

void RunningSlots::open(SlotId slot, const shards::SlotParameters& parameters) {
  slots_[static_cast<size_t>(slot.value)] = {
      .running = false, .left = parameters.max_new_tokens - parameters.first_output, .eos_ids = parameters.eos_ids};
}

void RunningSlots::decide(const shards::Decision& decision) {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (decision.finished[slot] != 0) slots_[slot].running = false;
  }
}

bool RunningSlots::take(Slot& slot, int32_t token) {
  if (!slot.running || token < 0) return false;
  --slot.left;
  slot.running = slot.left > 0 && std::ranges::find(slot.eos_ids, token) == slot.eos_ids.end();
  return true;
}

StepTimes times_of(std::span<const int32_t> slot) {
  StepTimes step;
  step.rows = static_cast<int32_t>(slot.size());
  for (size_t row = 0; row < slot.size(); ++row) step.slots += row == 0 || slot[row] != slot[row - 1];
  return step;
}

StepTimes RunningSlots::after_prefill(const shards::PrefillRows& rows, const shards::StepOutput& output) {
  StepTimes step = times_of(rows.slot);
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (rows.logit_rows[slot] < 0) continue;
    slots_[slot].running = slots_[slot].left > 0;
    step.tokens += take(slots_[slot], output.tokens[slot]);
  }
  return step;
}

StepTimes RunningSlots::after_decode(const shards::StepOutput& output) {
  StepTimes step;
  const size_t width = output.tokens.size() / slots_.size();
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].running) continue;
    ++step.slots;
    step.rows += static_cast<int32_t>(width);
    for (size_t i = 0; i < width && take(slots_[slot], output.tokens[slot * width + i]); ++i) ++step.tokens;
  }
  return step;
}

void StepClock::restart() {
  steps_.clear();
  collectives_.clear();
  for (LiveTotals& totals : totals_) {
    totals.steps = totals.tokens = totals.nanoseconds = totals.on_device = totals.after = 0;
  }
}

std::array<StepTotals, trace::kStepPhases> StepClock::totals() const {
  std::array<StepTotals, trace::kStepPhases> totals;
  for (size_t i = 0; i < totals.size(); ++i) {
    totals[i] = {totals_[i].steps,
                 totals_[i].tokens,
                 Duration(totals_[i].nanoseconds),
                 {Duration(totals_[i].on_device), Duration(totals_[i].after)}};
  }
  return totals;
}

void StepClock::add(StepPhase phase, shards::StepTag tag, TimePoint begin, TimePoint end, StepTimes step) {
  step.phase = phase;
  step.schedule = tag.schedule;
  step.step = tag.step;
  step.begin = begin;
  step.end = end;
  steps_.add(step);
  LiveTotals& totals = totals_[static_cast<size_t>(phase)];
  totals.steps.fetch_add(1, std::memory_order_relaxed);
  totals.tokens.fetch_add(step.tokens, std::memory_order_relaxed);
  totals.nanoseconds.fetch_add((end - begin).count(), std::memory_order_relaxed);
  totals.on_device.fetch_add(step.on_device.device.count(), std::memory_order_relaxed);
  totals.after.fetch_add(step.on_device.after.count(), std::memory_order_relaxed);
}

}  // namespace lockstep::observe
