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

/// Immutable; thread-safe.
class ModelText {
 public:
  /// Reads tokenizer.json, the chat template if there is one, and the end tokens of generation_config.json or
  /// config.json. Fails as `load_tokenizer` and `load_chat`.
  static Result<std::unique_ptr<const ModelText>> load(const std::filesystem::path& directory);

  /// From parts; for tests. `chat` may be empty.
  ModelText(std::unique_ptr<text::Tokenizer> tokenizer, std::optional<text::ModelChat> chat,
            std::vector<int32_t> end_ids);

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Null: the model has no chat template.
  const text::ModelChat* chat() const { return chat_ ? &*chat_ : nullptr; }
  /// How this model writes tool calls and reasoning, with the default variables of its template.
  const OutputFormat& format() const { return format_; }
  /// Ids that end an answer.
  const std::vector<int32_t>& end_ids() const { return end_ids_; }

 private:
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ModelChat> chat_;
  std::vector<int32_t> end_ids_;
  OutputFormat format_;
};

}  // namespace lockstep::serve
