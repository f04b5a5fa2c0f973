// A batch job: rows of a jobs file, kept in a journal as they are answered, written in order at the end.
//
//   jobs file ──► rows ─────────────────────┐
//   journal ────► results of earlier starts ─┴─► rows to do ─► engine ─► recorder's thread ─► journal
//                                                 └── at most so many that are not recorded ──┘   │
//                                                                         result file ◄───────────┘ in order
#pragma once

#include <memory>

#include "launcher/generate/job.h"

namespace lockstep::launcher {

/// The command, the log and the line outlive the job.
std::unique_ptr<Job> make_batch_job(const GenerateCommand& command, const Log& log, ProgressLine& progress);

/// Refuses options that only one of batch jobs and other jobs can have.
Result<void> check_batch_options(const GenerateCommand& command);

}  // namespace lockstep::launcher
