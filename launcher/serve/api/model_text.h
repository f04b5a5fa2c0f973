// The text side of the served model: tokenizer, chat template, format of its output.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/serve/output/output_reader.h"
#include "runtime/core/result.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::serve {

/// What the model's options of generation say.
struct ModelFacts {
  std::vector<int32_t> end_ids;  // end an answer
  bool sets_top_k = false;       // otherwise all tokens are candidates, as in OpenAI's API
};

/// Immutable; thread-safe.
class ModelText {
 public:
  /// Reads tokenizer.json, the chat template if there is one, and the options of generation. Fails as
  /// `load_tokenizer`, `load_chat` and `read_generation_config`.
  static Result<std::unique_ptr<const ModelText>> load(const std::filesystem::path& directory);

  /// From parts; for tests. `chat` may be empty.
  ModelText(std::unique_ptr<text::Tokenizer> tokenizer, std::optional<text::ModelChat> chat, ModelFacts facts);

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Null: the model has no chat template.
  const text::ModelChat* chat() const { return chat_ ? &*chat_ : nullptr; }
  /// How this model writes tool calls and reasoning, with the default variables of its template.
  const OutputFormat& format() const { return format_; }
  /// Whether the chat template accepts a user's message right behind a tool's result. Some demand that users and
  /// assistants alternate, and do not count the result.
  bool shows_user_after_result() const { return shows_user_after_result_; }
  const ModelFacts& facts() const { return facts_; }

 private:
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ModelChat> chat_;
  ModelFacts facts_;
  OutputFormat format_;
  bool shows_user_after_result_ = false;
};

}  // namespace lockstep::serve
