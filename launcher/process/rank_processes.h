// The processes of one group of ranks, of a server's engine or of a batch job: started, ended, and what their end
// means.
//
//   run ─► first process: rank 0, or a launcher ─► its end, or a stop ─► nothing of the group is left ─► RanksEnd
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/process/attempt.h"
#include "runtime/core/result.h"
#include "runtime/core/stop_event.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher {

struct RanksCommand {
  process::ChildCommand child;  // of the first process; its signal for orphans is chosen here
  WatchedChild role = WatchedChild::kRankZero;
  std::optional<int> ranks = {};  // their number, if it is known
  std::filesystem::path records;  // where they write their exit records; made before the start; empty: none
  bool shares_records = false;    // others write there at the same time; false: emptied before the start
};

struct RanksEnd {
  process::ChildOutcome outcome;
  AttemptEnd attempt;

  /// Whether its stop has ended them.
  bool was_stopped() const { return outcome.end == process::ChildOutcome::End::kStop; }
};

/// "found exit code 5, expected it to serve; rank 1 was lost": the end of a start that was to do what `expected` says.
std::string describe(const RanksEnd& end, std::string_view expected);

/// Neither copied nor moved. `run` is called once, `kill` by any thread at any time.
class RankProcesses {
 public:
  /// `stop` ends the processes once it is raised, by force if they do not react; borrowed.
  explicit RankProcesses(const StopEvent& stop) : stop_(stop) {}

  /// Starts the processes, and returns when none is left: ranks whose rank 0 was killed are ended too. The thread that
  /// calls it has to live as long as they do. Fails when the first process cannot be started. @blocking
  Result<RanksEnd> run(RanksCommand command);

  /// Ends them by force. Does not wait.
  void kill();

 private:
  void note_running(process::ChildProcess* child);

  const StopEvent& stop_;
  std::mutex mutex_;                          // guards the next two
  process::ChildProcess* running_ = nullptr;  // of the thread in `run`
  bool is_killed_ = false;
};

}  // namespace lockstep::launcher
