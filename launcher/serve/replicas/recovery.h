// What a lost engine means to its server: a pure value, without clock or threads.
//
//   starting ── serves ─► serving ── lost ─► ending ── its processes are gone ─┬─► waiting ── pause ─► starting
//      └───────────── lost or ended ───────────┘                               └─► over
//
//   The rule of restarts (restart_rule.h) decides: over, when the policy is to stop; when the first start fails for a
//   reason of its own (a bad option, no memory); and after `max_restarts` restarts in a row without progress. Progress
//   is a token, or a minute of service. After two starts in a row that did not come to serve, each next one has a rank
//   less: a place, memory or cores may be gone.
#pragma once

#include <cstdint>
#include <string_view>

#include "launcher/process/restart_rule.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::serve {

/// What the server does when it has lost a rank.
enum class OnLostRank { kSame, kShrink, kStop };
/// "same", "shrink", "stop"; `kStop` for other words, which the command line refuses.
OnLostRank on_lost_rank(std::string_view word);

class Recovery {
 public:
  struct Rules {
    OnLostRank policy = OnLostRank::kSame;
    int max_restarts = 5;  // in a row
  };
  enum class State { kStarting, kServing, kEnding, kWaiting, kOver };

  explicit Recovery(Rules rules);

  /// The engine serves.
  void note_serving(TimePoint now);
  /// It is lost; its processes may still be there.
  void note_lost();
  /// There will be no other start.
  void note_over() { state_ = State::kOver; }
  /// The next start has begun.
  void note_starting() { state_ = State::kStarting; }

  struct Next {
    bool again = false;    // false: it is over
    Duration pause{};      // before the next start
    bool shrinks = false;  // with one rank less
  };
  /// The processes are gone, for `reason`; `tokens` have been made since the server's start.
  Next note_gone(const Error& reason, uint64_t tokens, TimePoint now);

  State state() const { return state_; }
  /// Whether the engine is lost, or there will be none any more.
  bool is_lost() const { return state_ != State::kStarting && state_ != State::kServing; }
  /// Whether another start may follow the loss of an engine.
  bool may_recover() const { return policy_ != OnLostRank::kStop && state_ != State::kOver; }
  int restarts() const { return rule_.restarts(); }
  /// Restarts in a row without progress.
  int stalled() const { return rule_.in_a_row(); }

 private:
  const OnLostRank policy_;
  launcher::RestartRule rule_;
  State state_ = State::kStarting;
  bool has_served_ = false;
  TimePoint serving_since_{};
  bool serves_ = false;  // since the last start
  uint64_t tokens_ = 0;  // at the last end
};

}  // namespace lockstep::serve
