// How one start of a supervised command ended, judged from the child's own end and from what its ranks wrote. mpirun's
// exit code is a race once ranks die, so the ranks' records count first.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/process/exit_record.h"
#include "runtime/core/result.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// One start, over.
struct AttemptEnd {
  int code = 0;              // what the command would have returned had its launcher not been in the way
  std::set<int> lost_ranks;  // as far as anybody knows
  bool started = true;       // false: no rank ran, the launcher refused
  bool lacks_slots = false;  // because it has too few places for so many ranks
  std::string message;       // of the rank that knows best, or how the child ended
};

/// The records in `folder`; none where there is no such folder. Files that are no records are passed over.
std::vector<ExitRecord> read_exit_records(const std::filesystem::path& folder);

/// Removes the records in `folder`: what they say is of an earlier start.
void remove_exit_records(const std::filesystem::path& folder);

/// Pure. `ranks` is how many there were, if that is known.
AttemptEnd judge_attempt(const process::ChildOutcome& child, const std::vector<ExitRecord>& records,
                         std::optional<int> ranks);

}  // namespace lockstep::launcher
