// Whether an engine has left a question unanswered for too long: a pure value, without clock or threads.
//
// One look counts for at most half of the limit: a pause of this process itself (a debugger, a suspended machine) is no
// silence of the engine, whose answer may lie unread.
#pragma once

#include <algorithm>
#include <optional>

#include "runtime/core/clock.h"

namespace lockstep::serve {

class AnswerWatch {
 public:
  /// `limit`: zero is none.
  explicit AnswerWatch(Duration limit) : limit_(limit) {}

  void note_asked(TimePoint now) {
    looked_ = now;
    silent_ = Duration::zero();
  }
  void note_answered() { looked_.reset(); }
  /// Whether a question has no answer yet.
  bool is_waiting() const { return looked_.has_value(); }

  /// Counts the time since the last look. Returns whether the engine has been silent for longer than the limit.
  bool look(TimePoint now) {
    if (!looked_) return false;
    silent_ += std::min(now - *looked_, limit_ / 2);
    looked_ = now;
    return limit_ > Duration::zero() && silent_ >= limit_;
  }

 private:
  Duration limit_;
  Duration silent_{};
  std::optional<TimePoint> looked_;  // none: no question is open
};

}  // namespace lockstep::serve
