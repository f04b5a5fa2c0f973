#include "launcher/serve/replicas/recovery.h"

#include <algorithm>
#include <utility>

namespace lockstep::serve {
namespace {

constexpr Duration kProgress = std::chrono::minutes(1);
constexpr Duration kFirstPause = std::chrono::milliseconds(500);  // before the second restart in a row; then doubled
constexpr Duration kLongestPause = std::chrono::seconds(10);
constexpr int kDoublings = 5;  // until then

Duration pause_before(int restart) {
  if (restart <= 1) return Duration::zero();
  return std::min(kLongestPause, kFirstPause * (1 << std::min(restart - 2, kDoublings)));
}

/// Whether a rank or its machine may be the reason, so that another start can end otherwise.
bool is_loss(const Error& reason) {
  return reason.kind == ErrorKind::kPeerLost || reason.kind == ErrorKind::kDeadlineExceeded;
}

}  // namespace

OnLostRank on_lost_rank(std::string_view word) {
  if (word == "same") return OnLostRank::kSame;
  return word == "shrink" ? OnLostRank::kShrink : OnLostRank::kStop;
}

void Recovery::note_serving(TimePoint now) {
  state_ = State::kServing;
  has_served_ = serves_ = true;
  serving_since_ = now;
}

void Recovery::note_lost() {
  if (state_ != State::kOver) state_ = State::kEnding;
}

bool Recovery::may_start_again(const Error& reason) const {
  if (rules_.policy == OnLostRank::kStop || stalled_ >= rules_.max_restarts) return false;
  return has_served_ || is_loss(reason);
}

Recovery::Next Recovery::note_gone(const Error& reason, uint64_t tokens, TimePoint now) {
  const bool served_long = std::exchange(serves_, false) && now - serving_since_ >= kProgress;
  if (std::exchange(tokens_, tokens) != tokens || served_long) stalled_ = 0;
  if (!may_start_again(reason)) {
    state_ = State::kOver;
    return {};
  }
  state_ = State::kWaiting;
  ++restarts_;
  return {.again = true, .pause = pause_before(++stalled_), .shrinks = rules_.policy == OnLostRank::kShrink};
}

}  // namespace lockstep::serve
