// The ranks of this process under the program's rules: a group of processes or of threads. Adds exit records,
// Ctrl-C, injected faults, and an end for libraries that do not return.
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

/// Whether more ranks of a launcher than --tp form several groups, or are an error.
enum class Replicas { kRefused, kMade };

/// A command's requirements for its ranks.
struct OwnRanks {
  RunOptions run;
  std::optional<int> ranks;          // required number, of each replica; the number to start where they are threads
  std::filesystem::path read_ahead;  // a model whose weights are read into memory meanwhile; empty: none
  group::PeerDetection detection = group::PeerDetection::kOn;
  group::Meeting meeting = group::Meeting::kAgreed;
  EndSignal end_signal = EndSignal::kAny;
  Replicas replicas = Replicas::kRefused;
  ProgressLine* progress = nullptr;  // shows loading and prompts; may be null
};

/// The work of this process. `log` is its first rank's.
using GroupWork = std::function<Result<void>(Group& group, const Log& log)>;

/// Runs `work` in the group of this process's ranks, then leaves it. Fails with the error that ended the group, if
/// there was one. @blocking
Result<void> on_own_ranks(const OwnRanks& ranks, const GroupWork& work);

}  // namespace lockstep::launcher
