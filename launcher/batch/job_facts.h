// What a journal is of: the facts that decide the tokens of a batch job. Where and on how many ranks it runs is none of
// them, so a job may go on at another degree; nor are options that change the speed alone (slots, chunks, drafts).
#pragma once

#include <filesystem>
#include <vector>

#include "launcher/batch/jobs_file.h"
#include "launcher/generate/generate_command.h"
#include "runtime/journal/row_record.h"

namespace lockstep::launcher {

/// Fails with `kNotFound` when a file of the model cannot be read.
Result<journal::JobDescription> describe_job(const GenerateCommand& command, const Model& model, const JobsFile& jobs);

/// The model in `directory` by what its files hold, not by its name: configuration and tokenizer whole; of weights the
/// sizes, the headers and samples.
Result<std::vector<journal::Fact>> describe_model(const std::filesystem::path& directory);

}  // namespace lockstep::launcher
