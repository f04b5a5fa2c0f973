#include "runtime/text/chat_template.h"

#include <fmt/format.h>

#include <ctime>

#include "runtime/gguf/model_texts.h"
#include "runtime/text/jinja/template.h"
#include "runtime/text/json_field.h"

namespace lockstep::text {
namespace {

/// Sets the fields of the JSON object `json`, if it has text.
Result<void> set_all(jinja::Dict& dict, std::string_view json, std::string_view what) {
  if (json.empty()) return ok();
  LOCKSTEP_TRY(const auto more, jinja::parse_json(json, what));
  if (more.dict() == nullptr) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/text] cannot read {}: expected a JSON object", what)};
  }
  for (const auto& [name, value] : more.dict()->items) dict.set(name, value);
  return ok();
}

/// The current date as templates print it.
std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

class JinjaChatTemplate final : public ChatTemplate {
 public:
  explicit JinjaChatTemplate(jinja::Template parsed) : template_(std::move(parsed)) {}

  Result<std::string> render(const std::vector<Message>& messages, const ChatOptions& options) const override {
    jinja::Dict variables;
    variables.set("tools", jinja::Value());
    variables.set("documents", jinja::Value());
    variables.set("add_generation_prompt", options.add_generation_prompt);
    if (!options.bos_token.empty()) variables.set("bos_token", options.bos_token);
    if (!options.eos_token.empty()) variables.set("eos_token", options.eos_token);
    jinja::List turns;
    for (const Message& message : messages) {
      jinja::Dict turn{{{"role", message.role}, {"content", message.content}}};
      LOCKSTEP_TRY_VOID(set_all(turn, message.fields_json, "a message"));
      turns.items.emplace_back(std::move(turn));
    }
    variables.set("messages", std::move(turns));
    LOCKSTEP_TRY_VOID(set_all(variables, options.variables_json, "the chat template's variables"));
    return template_.render(std::move(variables), options.now);
  }

 private:
  jinja::Template template_;
};

/// A token of tokenizer_config.json: a string, or {"content": …}; "" when there is none.
Result<std::string> token_text(const JsonField& config, std::string_view key) {
  const auto field = config.find(key);
  if (!field) return std::string();
  if (field->value().is_string()) return field->string();
  LOCKSTEP_TRY(const JsonField content, field->at("content"));
  return content.string();
}

/// `chat_template`: a string, or a list of named ones with "default".
Result<std::optional<std::string>> configured_template(const JsonField& config) {
  const auto field = config.find("chat_template");
  if (!field) return std::optional<std::string>();
  if (field->value().is_string()) {
    LOCKSTEP_TRY(std::string source, field->string());
    return std::optional(std::move(source));
  }
  LOCKSTEP_TRY(const auto choices, field->elements());
  for (const JsonField& choice : choices) {
    LOCKSTEP_TRY(const std::string name, choice.string_or("name", ""));
    if (name != "default") continue;
    LOCKSTEP_TRY(const JsonField source, choice.at("template"));
    LOCKSTEP_TRY(std::string text, source.string());
    return std::optional(std::move(text));
  }
  return std::optional<std::string>();
}

}  // namespace

Result<std::unique_ptr<ChatTemplate>> parse_chat_template(std::string_view source) {
  LOCKSTEP_TRY(jinja::Template parsed, jinja::Template::parse(source));
  return std::make_unique<JinjaChatTemplate>(std::move(parsed));
}

Result<ModelChat> load_chat(const std::filesystem::path& directory) {
  ModelChat chat;
  LOCKSTEP_TRY(std::optional<std::string> source, gguf::read_model_text(directory / "chat_template.jinja"));
  const auto path = directory / "tokenizer_config.json";
  LOCKSTEP_TRY(const auto text, gguf::read_model_text(path));
  if (text) {
    const auto document = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
    const JsonField config(document, path.string());
    if (!document.is_object()) return config.invalid("no JSON object", "the tokenizer's configuration");
    LOCKSTEP_TRY(chat.bos_token, token_text(config, "bos_token"));
    LOCKSTEP_TRY(chat.eos_token, token_text(config, "eos_token"));
    if (!source) {
      LOCKSTEP_TRY(source, configured_template(config));
    }
  }
  if (!source) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[runtime/text] cannot make a chat prompt: found no chat template in {}, expected "
                             "chat_template.jinja or chat_template in tokenizer_config.json; give the prompt as plain "
                             "text",
                             directory.string())};
  }
  LOCKSTEP_TRY(chat.chat_template, parse_chat_template(*source));
  chat.source = *std::move(source);
  return chat;
}

Result<std::string> render_chat(const ModelChat& chat, const std::vector<Message>& messages, ChatOptions options) {
  if (options.bos_token.empty()) options.bos_token = chat.bos_token;
  if (options.eos_token.empty()) options.eos_token = chat.eos_token;
  if (!options.now) options.now = local_time();
  return chat.chat_template->render(messages, options);
}

}  // namespace lockstep::text
