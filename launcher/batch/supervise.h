// `lockstep supervise`.
#pragma once

#include <string>
#include <vector>

#include "launcher/batch/watched_command.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// A batch job that is started again when it is lost.
struct SuperviseCommand {
  int restarts = 10;
  int stalled_restarts = 2;
  double backoff_s = 1.0;
  bool shrink = false;
  std::vector<std::string> words;  // of the job, behind "--"
};

/// Runs a batch job, and starts it again from its journal when it is lost; the code that the last start ended with.
/// `parse` reads the job's own words. @blocking
Result<int> supervise(const SuperviseCommand& command, const ParseGenerate& parse);

}  // namespace lockstep::launcher
