// The rows that a user asks for: texts, files of text, or token ids with or without a mask. Everything is reduced to
// the ids that are attended to: storage starts at cache index 0, so masked ids are stripped on entry and never reach a
// shard. Positions count unmasked ids in every family of transformers, so that is what the mask means (check_masked in
// requests.h has the exceptions).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::launcher {

/// Where prompts come from; exactly one of these is used.
struct PromptSources {
  std::vector<std::string> texts;                  // --prompt, in order
  std::optional<std::filesystem::path> file;       // --prompt-file: the whole file is one prompt
  std::optional<std::filesystem::path> ids_file;   // --ids-file
  std::optional<std::filesystem::path> jobs_file;  // --prompts-file: a batch job, see jobs_file.h
};

/// One prompt, ready to run.
struct Prompt {
  std::vector<int32_t> ids;       // without masked ones
  std::vector<int32_t> negative;  // what guidance leads away from; empty: the last id
  std::string text;               // as given; empty for ids
  int64_t masked_inside = 0;      // masked ids between these
};

/// Reads an --ids-file: an array of rows; a row is an array of ids or {"ids": […], "mask": [0|1 …], "negative": […]};
/// ids whose mask is 0 are left out: padding on either side, and what shall not be attended to between. `origin` names
/// it in messages. Fails with `kInvalidArgument` naming the row.
Result<std::vector<Prompt>> parse_ids(std::string_view json, std::string_view origin);

/// How a text becomes a prompt's text: chat templates wrap it.
using Wrap = std::function<Result<std::string>(const std::string&)>;

/// Reads every prompt. `tokenizer` may be null when ids are given; `wrap` may be empty. Fails with `kInvalidArgument`
/// on an empty prompt or text that is not UTF-8, naming the row.
Result<std::vector<Prompt>> read_prompts(const PromptSources& sources, const text::Tokenizer* tokenizer,
                                         text::SpecialTokens special, const Wrap& wrap);

/// Refuses a prompt, and its negative one, that a model cannot hold: an id outside `vocabulary`, or more tokens than
/// `capacity`, naming `row`.
Result<void> check_prompt(const Prompt& prompt, size_t row, int64_t vocabulary, int64_t capacity);

/// Refuses prompts, and negative ones, that a model cannot hold: an id outside `vocabulary`, or more tokens than
/// `capacity`, naming the row.
Result<void> check_prompts(const std::vector<Prompt>& prompts, int64_t vocabulary, int64_t capacity);

}  // namespace lockstep::launcher
