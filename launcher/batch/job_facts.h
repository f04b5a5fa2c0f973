// Facts of a batch job for its journal: those that decide tokens. The ranks and their number are not among them, so a
// job may continue at another degree; nor are options that change only the speed (slots, chunks, drafts).
#pragma once

#include <cstdint>

#include "launcher/batch/jobs_file.h"
#include "launcher/generate/generate_command.h"
#include "runtime/journal/row_record.h"

namespace lockstep::launcher {

/// Fails with `kNotFound` when a file of the model cannot be read.
Result<journal::JobDescription> describe_job(const GenerateCommand& command, const Model& model, const JobsFile& jobs);

/// Of all facts: equal for processes that may answer rows of the same job.
uint64_t fingerprint_of(const journal::JobDescription& job);

}  // namespace lockstep::launcher
