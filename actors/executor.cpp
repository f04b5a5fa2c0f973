#include "actors/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kIdle: return "idle";
    case Phase::kSlots: return "slots";
    case Phase::kPrefill: return "prefill";
    case Phase::kDecode: return "decode";
    case Phase::kConfirm: return "confirm";
    case Phase::kEnded: return "ended";
  }
  return "unknown";
}

std::string to_string(const ExecutorStatus& status) {
  if (status.schedule < 0) return fmt::format("{}, before the first schedule", to_string(status.phase));
  return fmt::format("{}, schedule {}, step {}", to_string(status.phase), status.schedule, status.step);
}

Executor::Executor(RankId rank, shards::Engine& engine, ScheduleQueue& queue, const AbortFlag& abort,
                   ExecutorHooks hooks, IdleWait wait)
    : rank_(rank), engine_(engine), queue_(queue), abort_(abort), hooks_(std::move(hooks)), wait_(wait) {}

ExecutorStatus Executor::status() const {
  return {phase_, schedule_, step_, schedules_, prefill_steps_, decode_steps_};
}

Result<void> Executor::run() {
  try {
    Result<void> ended = run_schedules();
    if (!ended.has_value()) return explain(std::move(ended).assume_error());
    phase_ = Phase::kEnded;
    return ok();
  } catch (const std::exception& failure) {  // a failed check, or a library's surprise: a bug of ours either way
    return explain({ErrorKind::kInternal, fmt::format("[actors] executor: {}", failure.what())});
  }
}

Result<void> Executor::run_schedules() {
  for (int32_t expected = 0;; ++expected) {
    phase_ = Phase::kIdle;
    LOCKSTEP_TRY(const Schedule schedule, queue_.pop(abort_, wait_));
    LOCKSTEP_CHECK(schedule.number == expected, schedule.number, expected);
    LOCKSTEP_TRY_VOID(run_schedule(schedule));
    ++schedules_;
    if (hooks_.done) hooks_.done({schedule.number, next_step_});
    if (schedule.last == Last::kYes) return ok();
  }
}

Result<void> Executor::run_schedule(const Schedule& schedule) {
  schedule_ = schedule.number;
  step_ = 0;
  next_step_ = 0;
  LOCKSTEP_TRY_VOID(update_slots(schedule));
  LOCKSTEP_TRY_VOID(run_prefills(schedule));
  LOCKSTEP_TRY_VOID(run_decodes(schedule));
  return confirm(schedule);
}

Result<void> Executor::update_slots(const Schedule& schedule) {
  phase_ = Phase::kSlots;
  for (const SlotId slot : schedule.closed) LOCKSTEP_TRY_VOID(engine_.close_slot(slot));
  for (const OpenedSlot& opened : schedule.opened) {
    LOCKSTEP_TRY_VOID(engine_.open_slot(opened.slot, opened.parameters));
  }
  return ok();
}

Result<void> Executor::run_prefills(const Schedule& schedule) {
  for (const shards::PrefillRows& rows : schedule.prefills) {
    LOCKSTEP_TRY_VOID(begin_step(Phase::kPrefill, schedule));
    LOCKSTEP_TRY(const shards::StepOutput output, engine_.prefill(rows, {schedule.number, next_step_}));
    ++prefill_steps_;
    end_step(output);
  }
  return ok();
}

Result<void> Executor::run_decodes(const Schedule& schedule) {
  for (int32_t i = 0; i < schedule.decode_steps && !engine_.all_finished(); ++i) {
    LOCKSTEP_TRY_VOID(begin_step(Phase::kDecode, schedule));
    LOCKSTEP_TRY(const shards::StepOutput output, engine_.decode({schedule.number, next_step_}));
    ++decode_steps_;
    end_step(output);
  }
  return ok();
}

/// The steps that ran are the same on every rank, so either all confirm or none does.
Result<void> Executor::confirm(const Schedule& schedule) {
  if (next_step_ == 0) return ok();
  phase_ = Phase::kConfirm;
  LOCKSTEP_TRY_VOID(engine_.confirm({schedule.number, next_step_}));
  release();
  return ok();
}

Result<void> Executor::begin_step(Phase phase, const Schedule& schedule) {
  if (const auto reason = abort_.is_raised() ? abort_.reason() : std::nullopt) return *reason;
  phase_ = phase;
  step_ = next_step_;
  if (hooks_.step) hooks_.step(schedule.number, next_step_);
  return ok();
}

/// The step went well, so what was made before it is agreed on; its own tokens wait their turn.
void Executor::end_step(const shards::StepOutput& output) {
  release();
  const bool made_any = std::ranges::any_of(output.tokens, [](int32_t token) { return token >= 0; });
  if (hooks_.released && made_any) {
    pending_ = StepResult{.schedule = schedule_,
                          .step = next_step_,
                          .tokens = {output.tokens.begin(), output.tokens.end()},
                          .logits = {output.logits.begin(), output.logits.end()}};
  }
  ++next_step_;
}

void Executor::release() {
  if (!pending_) return;
  hooks_.released(*std::exchange(pending_, std::nullopt));
}

Error Executor::explain(Error error) const {
  if (auto reason = abort_.reason()) return *std::move(reason);  // the cause; what the engine saw is its effect
  if (!error.origin_rank) {
    error.origin_rank = rank_.value;
    error.message += fmt::format(" (rank {}: {})", rank_, to_string(status()));
  }
  return error;
}

}  // namespace lockstep::actors
