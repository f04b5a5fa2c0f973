#include "runtime/backends/cpu/wait_trial.h"

#include <algorithm>

namespace lockstep::cpu {

void WaitTrial::enter(State state, bool sleeps) {
  state_ = state;
  let_waits_sleep(sleeps);
  jobs_ = 0;
  since_late_ = kTogether;
}

void WaitTrial::start(const void* kind) {
  enter(State::kTrying, /*sleeps=*/false);
  kind_ = kind;
  others_ = 0;
  is_tried_ = false;
  times_ = {};
  late_of_spinning_ = 0;
}

void WaitTrial::begin_tried(const void* kind) {
  if (kind_ == nullptr || others_ == kOthers) start(kind);
  is_tried_ = kind == kind_;
  others_ += is_tried_ ? 0 : 1;
  let_waits_sleep(is_tried_ && jobs_ % 2 == 1);
  if (is_tried_) began_ = clock_->now();
}

void WaitTrial::end(uint32_t late_starts) {
  const uint32_t late = late_starts - seen_late_starts_;
  seen_late_starts_ = late_starts;
  switch (state_) {
    case State::kQuiet: return end_quiet(late);
    case State::kTrying: return end_tried(late);
    case State::kKept:
      if (++jobs_ < kKept) return;
      if (sleeps()) return start(nullptr);
      return enter(State::kQuiet, /*sleeps=*/false);
  }
}

void WaitTrial::end_quiet(uint32_t late) {
  const bool are_together = late > 1 || (late == 1 && since_late_ < kTogether);
  if (are_together) return start(nullptr);
  since_late_ = late == 1 ? 0 : std::min(since_late_ + 1, kTogether);
}

void WaitTrial::end_tried(uint32_t late) {
  if (!is_tried_) return;
  times_[sleeps() ? 1 : 0] += clock_->now() - began_;
  if (!sleeps()) late_of_spinning_ += late;
  if (++jobs_ < 2 * kTried) return;
  if (late_of_spinning_ == 0) return enter(State::kQuiet, /*sleeps=*/false);
  enter(State::kKept, 4 * times_[1] < 3 * times_[0]);
}

}  // namespace lockstep::cpu
