#include "launcher/serve/replicas/recovery.h"

#include <utility>

namespace lockstep::serve {
namespace {

using launcher::EndCause;
using Decision = launcher::RestartDecision;

constexpr Duration kProgress = std::chrono::minutes(1);  // of service

launcher::RestartLimits limits_of(const Recovery::Rules& rules) {
  const bool stops = rules.policy == OnLostRank::kStop;
  return {.in_all = stops ? std::optional(launcher::RestartLimit{0, "--on-lost-rank"}) : std::nullopt,
          .in_a_row = {rules.max_restarts, "--max-restarts"},
          .counted = launcher::CountedRestarts::kAll,
          .shrinking =
              rules.policy == OnLostRank::kShrink ? launcher::Shrinking::kEachLoss : launcher::Shrinking::kFailedStarts,
          .pauses = {.from = 2, .first = std::chrono::milliseconds(500), .longest = std::chrono::seconds(10)}};
}

/// An interrupted rank is no interrupted server: it has ended for a reason of its own.
EndCause cause_for_server(const Error& reason) {
  const EndCause cause = launcher::cause_of(reason.kind);
  return cause == EndCause::kInterrupted ? EndCause::kOwn : cause;
}

}  // namespace

OnLostRank on_lost_rank(std::string_view word) {
  if (word == "same") return OnLostRank::kSame;
  return word == "shrink" ? OnLostRank::kShrink : OnLostRank::kStop;
}

Recovery::Recovery(Rules rules) : policy_(rules.policy), rule_(limits_of(rules)) {}

void Recovery::note_serving(TimePoint now) {
  state_ = State::kServing;
  has_served_ = serves_ = true;
  serving_since_ = now;
}

void Recovery::note_lost() {
  if (state_ != State::kOver) state_ = State::kEnding;
}

Recovery::Next Recovery::note_gone(const Error& reason, uint64_t tokens, TimePoint now) {
  const bool has_served = std::exchange(serves_, false);
  const bool served_long = has_served && now - serving_since_ >= kProgress;
  const bool made_tokens = std::exchange(tokens_, tokens) != tokens;
  const Decision decision = rule_.decide({.cause = cause_for_server(reason),
                                          .has_progressed = made_tokens || served_long,
                                          .has_served = has_served,
                                          .is_proven = has_served_});
  state_ = decision.next == Decision::Next::kStop ? State::kOver : State::kWaiting;
  return {
      .again = state_ == State::kWaiting, .pause = decision.pause, .shrinks = decision.next == Decision::Next::kShrink};
}

}  // namespace lockstep::serve
