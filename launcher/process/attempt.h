// The judged end of one start of ranks, under a launcher or without. mpirun's exit code is a race once ranks die, so
// the ranks' records count before the child's exit code.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/process/exit_record.h"
#include "runtime/core/result.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// The end of one start.
struct AttemptEnd {
  int code = 0;              // the command's own code, without the launcher's influence
  std::set<int> lost_ranks;  // as far as known
  bool started = true;       // false: no rank ran, the launcher refused
  bool lacks_slots = false;  // the launcher has too few slots for the ranks
  std::string message;       // of the rank with the best information, or how the child ended
};

/// Why a start ended.
enum class EndCause {
  kDone,
  kInterrupted,
  kLost,        // a rank, a deadline, a signal: another start may end otherwise
  kOwn,         // bad input, no memory …
  kNotStarted,  // the launcher refused
};
EndCause cause_of(ErrorKind kind);
EndCause cause_of(const AttemptEnd& end);

/// The kind of error with the code of `end`. A code that no program of ours has is that of a signal, or of a launcher
/// whose rank was killed: `kPeerLost`.
ErrorKind kind_of(const AttemptEnd& end);

/// The role of the watched process.
enum class WatchedChild { kLauncher, kRankZero };

/// Pure. `ranks` is their number, if it is known. Code 0 of a launcher counts unless there are records and that of rank
/// 0 is missing or has another.
AttemptEnd judge_attempt(const process::ChildOutcome& outcome, WatchedChild child,
                         const std::vector<ExitRecord>& records, std::optional<int> ranks);

}  // namespace lockstep::launcher
