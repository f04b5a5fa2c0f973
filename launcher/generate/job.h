// What rank 0 makes of the user's wishes before weights are read: the prompts, who chooses the tokens of each row and
// how it ends, and the static sizes that every rank builds its graphs with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/command_line.h"
#include "launcher/commands/prompts.h"
#include "launcher/generate/requests.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/clock.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::launcher {

/// Everything that only rank 0 needs.
struct Job {
  JobSizes sizes;
  std::unique_ptr<text::Tokenizer> tokenizer;  // null when ids were given and the model has none
  std::vector<Prompt> prompts;
  std::vector<JobRequest> requests;
  size_t answers = 0;                     // of all requests: prompt by prompt
  bool answers_as_made = true;            // false: known at the end only (beams)
  std::vector<std::string> stop_strings;  // of the options, or of generation_config.json
  std::optional<Duration> max_time;       // of every row, from its submission
  std::vector<std::string> warnings;      // what the user should know: ignored options
};

/// Reads prompts, tokenizer, chat template and generation options, and checks them against the model. `clock` outlives
/// the job. Fails with `kInvalidArgument` for options that contradict each other and prompts that do not fit, and as
/// the readers of those files do.
Result<Job> prepare_job(const GenerateCommand& command, const checkpoint::ModelSpec& spec, const Clock& clock);

/// The sizes as one line of text, and back. Another text fails with `kInternal`: ranks exchange them.
std::string to_text(const JobSizes& sizes);
Result<JobSizes> parse_sizes(const std::string& text);

}  // namespace lockstep::launcher
