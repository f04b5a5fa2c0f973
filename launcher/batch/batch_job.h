// A batch job: rows of a jobs file, recorded as they finish, written in order.
//
//   jobs file ──► rows ─────────────────────┐
//   journal ────► results of earlier starts ─┴─► rows to do ─► engine ─► recorder's thread ─► journal
//                                                 └── limit of rows that are not recorded ────┘   │
//                                                                         result file ◄───────────┘ in order
#pragma once

#include <memory>
#include <string>

#include "launcher/generate/job.h"

namespace lockstep::launcher {

/// The command, the log and the line outlive the job.
std::unique_ptr<Job> make_batch_job(const GenerateCommand& command, const Log& log, ProgressLine& progress);

/// The part of group `group` in a job that another process shares out: `shared` is what its `share` returned. The
/// command outlives the job.
std::unique_ptr<Job> make_part_of_job(const GenerateCommand& command, const std::string& shared, size_t group);

/// Rejects options that fit only one of batch jobs and other jobs.
Result<void> check_batch_options(const GenerateCommand& command);

}  // namespace lockstep::launcher
