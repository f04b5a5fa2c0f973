#include "actors/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {

std::string to_string(const ExecutorStatus& status) {
  if (status.schedule < 0) return fmt::format("{}, before the first schedule", to_string(status.phase));
  return fmt::format("{}, schedule {}, step {}", to_string(status.phase), status.schedule, status.step);
}

Executor::Executor(RankId rank, shards::StepEngine& engine, ScheduleQueue& queue, const AbortFlag& abort,
                   ExecutorHooks hooks, IdleWait wait, Duration hand_on_period)
    : rank_(rank),
      engine_(engine),
      queue_(queue),
      abort_(abort),
      hooks_(std::move(hooks)),
      wait_(wait),
      hand_on_period_(hand_on_period),
      host_slots_(static_cast<size_t>(engine.slots())),
      with_logits_(host_slots_.size()) {}

ExecutorStatus Executor::status() const {
  return {phase_, schedule_, step_, schedules_, prefill_steps_, decode_steps_, score_steps_};
}

Result<void> Executor::run() {
  try {
    Result<void> ended = run_schedules();
    hand_on();
    if (!ended.has_value()) return explain(std::move(ended).assume_error());
    phase_ = Phase::kEnded;
    return ok();
  } catch (const std::bad_alloc&) {
    return explain({ErrorKind::kResourceExhausted,
                    "[actors] out of memory in a step; use more ranks, or lower --max-seq-len or --batch-size"});
  } catch (const std::exception& failure) {  // a failed check or a library's exception: an internal error
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
  confirmed_ = 0;
  LOCKSTEP_TRY_VOID(update_slots(schedule));
  LOCKSTEP_TRY_VOID(run_prefills(schedule));
  LOCKSTEP_TRY_VOID(run_scores(schedule));
  LOCKSTEP_TRY_VOID(run_decodes(schedule));
  return confirm(schedule);
}

Result<void> Executor::update_slots(const Schedule& schedule) {
  phase_ = Phase::kSlots;
  for (const SlotId slot : schedule.closed) LOCKSTEP_TRY_VOID(engine_.close_slot(slot));
  for (const OpenedSlot& opened : schedule.opened) {
    for (const SavedSlot& saved : opened.saved) {
      LOCKSTEP_TRY_VOID(engine_.save_slot({opened.slot, saved.to}, saved.tokens));
    }
    LOCKSTEP_TRY_VOID(engine_.open_slot(opened.slot, opened.parameters));
    if (!opened.prefix.ids.empty()) LOCKSTEP_TRY_VOID(engine_.begin_with(opened.slot, opened.prefix));
  }
  watch_host_slots(schedule);
  return ok();
}

void Executor::watch_host_slots(const Schedule& schedule) {
  for (const SlotId slot : schedule.closed) host_slots_[static_cast<size_t>(slot.value)] = HostSlot::kNot;
  for (const HostSlots& host : schedule.host_chosen) {
    for (const SlotId slot : host.slots) {
      HostSlot& state = host_slots_[static_cast<size_t>(slot.value)];
      if (state == HostSlot::kNot) state = HostSlot::kWaiting;
    }
  }
}

Result<void> Executor::run_prefills(const Schedule& schedule) {
  for (const shards::PrefillRows& rows : schedule.prefills) {
    LOCKSTEP_TRY_VOID(begin_step(Phase::kPrefill));
    LOCKSTEP_TRY(const shards::StepOutput output, engine_.prefill(rows, {schedule.number, next_step_}));
    ++prefill_steps_;
    note_logits_of(rows);
    LOCKSTEP_TRY_VOID(end_step(schedule, output, std::ssize(rows.ids)));
    const bool has_first_tokens = std::ranges::any_of(rows.logit_rows, [](int32_t row) { return row >= 0; });
    if (has_first_tokens) LOCKSTEP_TRY_VOID(confirm(schedule));  // instead of a whole step later
  }
  return ok();
}

Result<void> Executor::run_scores(const Schedule& schedule) {
  for (const shards::ScoreRows& rows : schedule.scores) {
    LOCKSTEP_TRY_VOID(begin_step(Phase::kScore));
    LOCKSTEP_TRY(const shards::ScoreOutput output, engine_.score(rows, {schedule.number, next_step_}));
    ++score_steps_;
    release();
    const TimePoint now = SteadyClock().now();
    note_step(std::ssize(rows.ids), now);
    hand_on_if_due(schedule, now);
    if (hooks_.released) {
      pending_ = StepResult{.schedule = schedule.number,
                            .step = next_step_,
                            .tokens = {},
                            .made = now,
                            .scored = ScoredRows{.slot = rows.slot,
                                                 .scores = {output.scores.begin(), output.scores.end()},
                                                 .logits = {output.logits.begin(), output.logits.end()}}};
    }
    ++next_step_;
  }
  return ok();
}

Result<void> Executor::run_decodes(const Schedule& schedule) {
  for (int32_t i = 0; i < schedule.decode_steps && !engine_.all_finished(); ++i) {
    LOCKSTEP_TRY_VOID(begin_step(Phase::kDecode));
    LOCKSTEP_TRY(const shards::StepOutput output, engine_.decode({schedule.number, next_step_}));
    ++decode_steps_;
    note_logits_of_running();
    const auto width = std::ssize(output.tokens) / std::ssize(host_slots_);
    int64_t rows = 0;
    for (int64_t first = 0; first < std::ssize(output.tokens); first += width) {
      rows += output.tokens[static_cast<size_t>(first)] >= 0 ? 1 : 0;
    }
    LOCKSTEP_TRY_VOID(end_step(schedule, output, rows));
    if (schedule.agreement == Agreement::kAfterEachStep) LOCKSTEP_TRY_VOID(confirm(schedule));
  }
  return ok();
}

/// All ranks ran the same steps, so either all confirm or none does.
Result<void> Executor::confirm(const Schedule& schedule) {
  if (next_step_ == confirmed_) return ok();
  confirmed_ = next_step_;
  phase_ = Phase::kConfirm;
  LOCKSTEP_TRY_VOID(engine_.confirm({schedule.number, next_step_}));
  release();
  hand_on();
  return ok();
}

Result<void> Executor::begin_step(Phase phase) {
  if (const auto reason = abort_.is_raised() ? abort_.reason() : std::nullopt) return *reason;
  phase_ = phase;
  step_ = next_step_;
  if (hooks_.step) hooks_.step(status());
  step_begin_ = SteadyClock().now();
  return ok();
}

void Executor::note_step(int64_t rows, TimePoint now) const {
  if (hooks_.stepped) hooks_.stepped({.phase = phase_.load(), .rows = rows, .begin = step_begin_, .end = now});
}

void Executor::note_logits_of(const shards::PrefillRows& rows) {
  for (size_t s = 0; s < host_slots_.size(); ++s) {
    with_logits_[s] = host_slots_[s] == HostSlot::kWaiting && rows.logit_rows[s] >= 0 ? 1 : 0;
    if (with_logits_[s] != 0) host_slots_[s] = HostSlot::kRunning;
  }
}

void Executor::note_logits_of_running() {
  for (size_t s = 0; s < host_slots_.size(); ++s) with_logits_[s] = host_slots_[s] == HostSlot::kRunning ? 1 : 0;
}

/// After a successful step the earlier tokens are agreed on; its own tokens are pending.
Result<void> Executor::end_step(const Schedule& schedule, const shards::StepOutput& output, int64_t rows) {
  release();
  const TimePoint now = SteadyClock().now();
  note_step(rows, now);
  hand_on_if_due(schedule, now);
  StepResult& result = pending_.emplace();
  result.schedule = schedule.number;
  result.step = next_step_;
  result.made = now;
  if (hooks_.released) {
    result.tokens = graph_tokens(output.tokens);
    const size_t vocabulary = output.logits.size() / host_slots_.size();
    for (const SlotId slot : schedule.logits_of) {
      const auto row = output.logits.subspan(static_cast<size_t>(slot.value) * vocabulary, vocabulary);
      result.logits.insert(result.logits.end(), row.begin(), row.end());
    }
    if (vocabulary > 0) result.logits_of = schedule.logits_of;
  }
  const bool host_chooses = std::ranges::find(with_logits_, uint8_t{1}) != with_logits_.end();
  if (host_chooses) {
    LOCKSTEP_TRY(result.choices, decide(schedule, output));
  }
  const bool made_any = std::ranges::any_of(result.tokens, [](int32_t token) { return token >= 0; });
  if (!hooks_.released || (!made_any && result.choices.empty())) pending_.reset();
  ++next_step_;
  return ok();
}

/// The tokens without those of host-chosen slots.
std::vector<int32_t> Executor::graph_tokens(std::span<const int32_t> tokens) const {
  std::vector<int32_t> kept(tokens.begin(), tokens.end());
  const size_t width = kept.size() / host_slots_.size();
  for (size_t i = 0; i < kept.size(); ++i) {
    if (host_slots_[i / width] != HostSlot::kNot) kept[i] = -1;
  }
  return kept;
}

/// Every rank applies rank 0's decision between this step and the next.
Result<std::vector<HostChoice>> Executor::decide(const Schedule& schedule, const shards::StepOutput& output) {
  phase_ = Phase::kDecide;
  shards::Decision decision(engine_.slots());
  std::vector<HostChoice> choices;
  if (hooks_.decide) choices = hooks_.decide(schedule, with_logits_, output, decision);
  LOCKSTEP_TRY_VOID(engine_.decide(decision));
  for (size_t s = 0; s < host_slots_.size(); ++s) {
    if (decision.sources[s] != static_cast<int32_t>(s)) host_slots_[s] = HostSlot::kRunning;
    if (decision.finished[s] != 0) host_slots_[s] = HostSlot::kFinished;
  }
  return choices;
}

void Executor::release() {
  if (!pending_) return;
  released_.push_back(std::move(*pending_));
  pending_.reset();
}

void Executor::hand_on_if_due(const Schedule& schedule, TimePoint now) {
  const bool is_due = !last_hand_on_ || now - *last_hand_on_ >= hand_on_period_;
  if (is_due || schedule.delivery == Delivery::kAtOnce) hand_on();
}

void Executor::hand_on() {
  if (released_.empty()) return;
  hooks_.released(std::exchange(released_, {}));
  last_hand_on_ = SteadyClock().now();
}

Error Executor::explain(Error error) const {
  if (auto reason = abort_.reason()) return *std::move(reason);  // the cause of the engine's error
  if (!error.origin_rank) {
    error.origin_rank = rank_.value;
    error.message += fmt::format(" (rank {}: {})", rank_, to_string(status()));
  }
  return error;
}

}  // namespace lockstep::actors
