// The options of `generate`.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/generate/prompts.h"
#include "launcher/process/model_arguments.h"
#include "launcher/process/run_options.h"
#include "lockstep/options.h"

namespace lockstep::launcher {

/// Who shares out the rows of a batch job, for one of its groups of ranks.
struct RowsFrom {
  std::filesystem::path socket;  // empty: this process does
  size_t group = 0;
};

struct GenerateCommand {
  ModelArguments model;
  EngineOptions engine;
  RunOptions run;
  PromptSources prompts;
  bool chat = false;
  std::vector<std::string> negative_prompts;  // for guidance: one for all prompts, or one per prompt
  /// Hugging Face's GenerationConfig fields given as options, by name, as JSON text ("0.7", "[1,2]").
  std::map<std::string, std::string> generation;
  bool ignore_eos = false;
  std::vector<std::string> stop_strings;
  std::optional<std::filesystem::path> json;
  std::optional<std::filesystem::path> output_logits;
  std::optional<std::filesystem::path> output_scores;
  std::optional<std::filesystem::path> journal;  // of --prompts-file
  std::optional<std::filesystem::path> output;   // of --prompts-file; default: stdout
  int replicas = 1;                              // groups of ranks that share the rows of --prompts-file
  std::vector<std::string> replica_words;        // the options of a replica's command, as they were given
  bool takes_devices = false;                    // each rank of the backend takes a device of its own
  RowsFrom rows_from;
};

}  // namespace lockstep::launcher
