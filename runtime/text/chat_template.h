// Chat templates in a subset of Jinja, rendered over a list of messages.
#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::text {

/// One turn of a conversation.
struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
  /// More fields, as a JSON object: {"tool_calls": […], "reasoning_content": "…"}. They override the ones above. With
  /// an empty role they are the whole message.
  std::string fields_json = {};
};

/// A special token by its name in templates: {"pad_token", "<pad>"}.
struct NamedToken {
  std::string name;
  std::string text;
};

/// The variables of a template besides the messages.
struct ChatOptions {
  bool add_generation_prompt = true;
  std::string bos_token = {};  // as text; empty if the model has none
  std::string eos_token = {};
  std::vector<NamedToken> other_tokens = {};
  /// The time for strftime_now; without it the function is undefined, and templates use their default date.
  std::optional<std::tm> now = std::nullopt;
  /// More variables, as a JSON object: {"tools": […], "enable_thinking": false}. They override the ones above.
  std::string variables_json = {};
  /// The field of the last message that the answer continues, such as "content": the text ends with it. Empty: the
  /// last message is complete.
  std::string continued_field = {};
};

/// A parsed template. Immutable; thread-safe.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  /// The prompt's text. As in transformers, a key of a message whose value is null is omitted, and the reasoning of a
  /// message has all of its names (reasoning_content, thinking). Fails with `kInvalidArgument`, naming the line, when
  /// the template raises an exception or a name, filter or method is unknown; also without messages, and when the last
  /// message cannot be continued.
  virtual Result<std::string> render(const std::vector<Message>& messages, const ChatOptions& options) const = 0;
};

/// Fails with `kUnsupported` or `kInvalidArgument`, naming the template's line.
Result<std::unique_ptr<ChatTemplate>> parse_chat_template(std::string_view source);

struct ModelTemplate {
  std::unique_ptr<ChatTemplate> parsed;
  std::string source;
};

/// The templates of a model, with the texts of its special tokens.
struct ModelChat {
  ModelTemplate usual;
  ModelTemplate with_tools;  // without one, the usual template takes the tools
  std::string bos_token;
  std::string eos_token;
  std::vector<NamedToken> other_tokens = {};

  const ModelTemplate& template_for(bool has_tools) const {
    return has_tools && with_tools.parsed ? with_tools : usual;
  }
};

/// Reads chat_template.jinja and additional_chat_templates/tool_use.jinja or, without these, the templates "default"
/// and "tool_use" of tokenizer_config.json; `directory` may be a GGUF file. Fails with `kNotFound` when the model has
/// no usual template, and as `parse_chat_template` for that one; for the other, `render` fails so.
Result<ModelChat> load_chat(const std::filesystem::path& directory);

/// The prompt's text with the model's special tokens, and the local time where `options` has none. The template is the
/// one for tools if the variables have `tools`. The text contains every special token: encode it with
/// `SpecialTokens::kOmit`.
Result<std::string> render_chat(const ModelChat& chat, const std::vector<Message>& messages, ChatOptions options);

}  // namespace lockstep::text
