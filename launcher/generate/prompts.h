// The rows that a user asks for: texts, files of text, or token ids with or without a mask. Everything is reduced to
// the ids that are attended to: storage starts at cache index 0, so masked ids are stripped on entry and never reach a
// shard. Positions count unmasked ids in every family of transformers, so that is what the mask means (an engine
// refuses the exceptions).
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

/// Where prompts come from; exactly one of these is used.
struct PromptSources {
  std::vector<std::string> texts;                  // --prompt, in order
  std::optional<std::filesystem::path> file;       // --prompt-file: the whole file is one prompt
  std::optional<std::filesystem::path> ids_file;   // --ids-file
  std::optional<std::filesystem::path> jobs_file;  // --prompts-file: a batch job, see jobs_file.h
};

/// Reads an --ids-file: an array of rows; a row is an array of ids or {"ids": […], "mask": [0|1 …], "negative": […]};
/// ids whose mask is 0 are left out: padding on either side, and what shall not be attended to between. `origin` names
/// it in messages. Fails with `kInvalidArgument` naming the row.
Result<std::vector<Prompt>> parse_ids(std::string_view json, std::string_view origin);

/// Whether the model's chat template is put around texts.
enum class Chat { kNo, kYes };

/// Reads every prompt but those of a jobs file. Fails with `kInvalidArgument` on an empty prompt or text that is not
/// UTF-8, naming the row, and as `Model::encode`.
Result<std::vector<Prompt>> read_prompts(const PromptSources& sources, const Model& model, Chat chat);

/// `error` of a prompt, saying which one: "[launcher] prompt 3: …".
Error in_prompt(const Error& error, size_t row);

}  // namespace lockstep::launcher
