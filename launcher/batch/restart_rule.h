// The restart decision after the end of a job. Pure.
//
//   ended as                                          with progress      without
//   done, interrupted                                 stop               stop
//   lost: a rank, a deadline, a signal                again              again, up to a limit in a row
//   bad input, unsupported, wrong launch, memory …    again              stop
//   a rank lost twice in a row, or too few slots      with fewer ranks, if --shrink allows it
#pragma once

#include <optional>
#include <set>
#include <string>

#include "launcher/process/attempt.h"

namespace lockstep::launcher {

struct RestartLimits {
  int restarts = 10;         // of the whole job
  int stalled_restarts = 2;  // in a row after starts that finished no row
  bool may_shrink = false;
};

/// The history of a job's attempts.
struct RestartHistory {
  int restarts = 0;
  int stalled = 0;           // starts in a row that finished no row
  std::set<int> lost_ranks;  // of the previous attempt
};

struct RestartDecision {
  enum class Next { kStop, kAgain, kShrink };

  Next next = Next::kStop;
  std::string why;

  friend bool operator==(const RestartDecision&, const RestartDecision&) = default;
};

/// Judges an attempt that finished `rows` more rows, and adds it to `history`.
RestartDecision decide_restart(const AttemptEnd& end, uint64_t rows, const RestartLimits& limits,
                               RestartHistory& history);

}  // namespace lockstep::launcher
