// What rank 0 makes of the user's wishes before weights are read: the prompts, how each row draws and ends, and the
// static sizes that every rank builds its graphs with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/command_line.h"
#include "launcher/prompts.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/clock.h"
#include "runtime/text/tokenizer.h"
#include "shards/engine.h"
#include "shards/shard.h"

namespace lockstep::launcher {

/// Everything that only rank 0 needs.
struct Job {
  std::unique_ptr<text::Tokenizer> tokenizer;  // null when ids were given and the model has none
  std::vector<Prompt> prompts;
  std::vector<shards::SlotParameters> parameters;  // by row
  std::vector<std::string> stop_strings;           // of the options, or of generation_config.json
  std::optional<Duration> max_time;                // of every row, from its submission
  std::vector<std::string> warnings;               // what the user should know: ignored options
};

/// The static sizes, which rank 0 tells the others.
struct JobSizes {
  int64_t slots = 1;
  int64_t capacity = 1;

  friend bool operator==(const JobSizes&, const JobSizes&) = default;
};

/// Reads prompts, tokenizer, chat template and generation options, and checks them against the model.
Result<Job> prepare_job(const GenerateCommand& command, const checkpoint::ModelSpec& spec, JobSizes& sizes);

/// The sizes as one line of text, and back.
std::string to_text(const JobSizes& sizes);
Result<JobSizes> parse_sizes(const std::string& text);

}  // namespace lockstep::launcher
