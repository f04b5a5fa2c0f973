// The ranks of this process under the program's rules: its place in the group of an mpirun or all ranks as threads,
// with exit records, Ctrl-C, faults on purpose, and an end where a library does not return.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "engine/group/hooks.h"
#include "launcher/process/progress_line.h"
#include "launcher/process/run_options.h"
#include "lockstep/group.h"
#include "runtime/core/log.h"

namespace lockstep::launcher {

/// What a command does with its ranks.
struct OwnRanks {
  RunOptions run;
  std::optional<int> ranks;          // how many there must be; where they are threads, how many there are
  std::filesystem::path read_ahead;  // a model whose weights are brought into memory meanwhile; empty: none
  group::PeerDetection detection = group::PeerDetection::kOn;
  group::Meeting meeting = group::Meeting::kAgreed;
  ProgressLine* progress = nullptr;  // shows loading and prompts; may be null
};

/// The work of this process. `log` is its first rank's.
using GroupWork = std::function<Result<void>(Group& group, const Log& log)>;

/// Runs `work` in the group of this process's ranks, then leaves it. Fails with the error that settled the group, if
/// there was one. @blocking
Result<void> on_own_ranks(const OwnRanks& ranks, const GroupWork& work);

}  // namespace lockstep::launcher
