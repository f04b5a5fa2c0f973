// The command `lockstep supervise`.
#pragma once

#include <string>
#include <vector>

#include "launcher/batch/watched_command.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// A batch job that is restarted when it is lost.
struct SuperviseCommand {
  int restarts = 10;
  int stalled_restarts = 2;
  double backoff_s = 1.0;
  bool shrink = false;
  std::vector<std::string> words;  // the job's words, after "--"
};

/// Runs a batch job and restarts it from its journal when it is lost; returns the exit code of the last start. `parse`
/// reads the job's words. @blocking
Result<int> supervise(const SuperviseCommand& command, const ParseGenerate& parse);

}  // namespace lockstep::launcher
