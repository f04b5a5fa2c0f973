// Facts of a batch job for its journal: those that decide tokens. The ranks and their number are not among them, so a
// job may continue at another degree; nor are options that change only the speed (slots, chunks, drafts).
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "launcher/batch/jobs_file.h"
#include "launcher/generate/generate_command.h"
#include "runtime/journal/row_record.h"

namespace lockstep::launcher {

/// Fails with `kNotFound` when a file of the model cannot be read.
Result<journal::JobDescription> describe_job(const GenerateCommand& command, const Model& model, const JobsFile& jobs);

/// Of all facts: equal for processes that may answer rows of the same job.
uint64_t fingerprint_of(const journal::JobDescription& job);

/// Describes the model in `directory` by its files' contents, not by its name: configuration and tokenizer whole; the
/// sizes, headers and samples of weights.
Result<std::vector<journal::Fact>> describe_model(const std::filesystem::path& directory);

}  // namespace lockstep::launcher
