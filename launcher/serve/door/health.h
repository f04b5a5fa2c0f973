// Whether the server can answer: a pure value, without clock or threads.
//
//   starting ── engine serves ─► ready ◄── serves again ── recovering
//                                  │ └───── engine lost ─────► │
//                                  └─ SIGTERM ─► draining ◄────┘ SIGTERM
//   any ── no engine any more ─► lost
//
// A ready server is healthy unless work is running and no step has ended for `silence`. A full queue, a long prompt and
// slow clients are no reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"

namespace lockstep::serve {

enum class DoorState { kStarting, kReady, kRecovering, kDraining, kLost };
std::string_view to_string(DoorState state);

/// The states of the ranks after an engine's end that began at `lost`; of an unknown rank, all are lost. Pure.
std::vector<std::string> ranks_after_loss(size_t ranks, std::optional<int> lost);

class Health {
 public:
  explicit Health(Duration silence) : silence_(silence) {}

  /// Transitions that the drawing lacks are ignored.
  void note_ready();
  void note_recovering();
  void note_draining();
  void note_lost();
  DoorState state() const { return state_; }
  /// While the engine starts again, requests wait.
  bool takes_requests() const { return state_ == DoorState::kReady || state_ == DoorState::kRecovering; }

  /// Work has begun, after a time without any.
  void note_work(TimePoint now) { note_progress(now); }
  /// A token has arrived, or a step has ended.
  void note_progress(TimePoint when) {
    if (!progress_ || when > *progress_) progress_ = when;
  }

  /// `is_working`: the engine has requests.
  bool is_stalled(TimePoint now, bool is_working) const {
    return state_ != DoorState::kStarting && is_working && progress_ && now - *progress_ > silence_;
  }
  bool is_healthy(TimePoint now, bool is_working) const {
    return state_ == DoorState::kReady && !is_stalled(now, is_working);
  }
  /// "starting", "ready", "stalled", "recovering", "draining", "lost".
  std::string_view word(TimePoint now, bool is_working) const;
  /// Since the last token or step; none: nothing has run.
  std::optional<Duration> since_progress(TimePoint now) const {
    return progress_ ? std::optional<Duration>(now - *progress_) : std::nullopt;
  }

 private:
  Duration silence_;
  DoorState state_ = DoorState::kStarting;
  std::optional<TimePoint> progress_;
};

}  // namespace lockstep::serve
