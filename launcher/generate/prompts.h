// Prompts: texts, files of text, or token ids with or without a mask. Only the ids that attention covers remain:
// storage starts at cache index 0, so masked ids are stripped on entry and never reach a shard. In every family of
// transformers, positions count unmasked ids, so stripping has the meaning of the mask (an engine rejects the
// exceptions).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/request.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// The sources of prompts; exactly one is used.
struct PromptSources {
  std::vector<std::string> texts;                  // --prompt, in order
  std::optional<std::filesystem::path> file;       // --prompt-file: the whole file is one prompt
  std::optional<std::filesystem::path> ids_file;   // --ids-file
  std::optional<std::filesystem::path> jobs_file;  // --prompts-file: a batch job, see jobs_file.h
};

/// Reads an --ids-file: an array of rows; a row is an array of ids or {"ids": […], "mask": [0|1 …], "negative": […]}.
/// Ids with mask 0 are removed: padding on either side, and hidden ids inside. `origin` names the file in messages.
/// Fails with `kInvalidArgument` naming the row.
Result<std::vector<Prompt>> parse_ids(std::string_view json, std::string_view origin);

/// Whether texts are wrapped in the model's chat template.
enum class Chat { kNo, kYes };

/// Reads every prompt except those of a jobs file. Fails with `kInvalidArgument` for an empty prompt or text that is
/// not UTF-8, naming the row, and as `Model::encode`.
Result<std::vector<Prompt>> read_prompts(const PromptSources& sources, const Model& model, Chat chat);

/// The `error` of a prompt with the prompt's number: "[launcher] prompt 3: …".
Error in_prompt(const Error& error, size_t row);

}  // namespace lockstep::launcher
