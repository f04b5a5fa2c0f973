// What signals ask of the server, and when its open requests have had their time: a pure value.
//
//   first signal ──► drain: kWait … ──┬─ every answer is out ─► kFinish
//                                     └─ the time is over ────► kCut
//   second signal, or one before the server is ready ─────────► stop at once
#pragma once

#include <cstddef>
#include <utility>

#include "launcher/serve/door/health.h"
#include "runtime/core/clock.h"

namespace lockstep::serve {

class Drain {
 public:
  explicit Drain(Duration limit) : limit_(limit) {}

  enum class SignalStep { kDrain, kStop, kIgnore };
  /// What a signal asks for. The first one after a loss asks for nothing: the server is ending.
  SignalStep on_signal(DoorState state, TimePoint now) {
    const bool is_first = !std::exchange(has_signal_, true);
    if (!is_first || state == DoorState::kStarting) return SignalStep::kStop;
    if (state == DoorState::kLost) return SignalStep::kIgnore;
    ends_ = now + limit_;
    return SignalStep::kDrain;
  }

  enum class DrainStep { kWait, kFinish, kCut };
  /// `open`: requests without a complete answer.
  DrainStep look(size_t open, TimePoint now) const {
    if (open == 0) return DrainStep::kFinish;
    return now >= ends_ ? DrainStep::kCut : DrainStep::kWait;
  }

 private:
  Duration limit_;
  TimePoint ends_{};
  bool has_signal_ = false;
};

}  // namespace lockstep::serve
