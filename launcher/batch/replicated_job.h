// A batch job on several groups of ranks that this process starts: it shares out the rows and records them.
//
//   this process: rows, journal, results ── RowServer ─┬─► lockstep generate --rows-from …: replica 0, --tp ranks
//                                                      └─► replica 1 …      lost: started again; the others go on
#pragma once

#include "launcher/generate/generate_command.h"
#include "launcher/process/progress_line.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Runs the job to its end. Fails with the error of the replica that was lost last when none is left, and then with all
/// rows in the journal that have an answer. @blocking
Result<void> run_replicated_job(const GenerateCommand& command, ProgressLine& progress);

}  // namespace lockstep::launcher
