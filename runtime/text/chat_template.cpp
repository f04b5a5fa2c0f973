#include "runtime/text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "runtime/gguf/model_texts.h"
#include "runtime/text/jinja/library.h"
#include "runtime/text/jinja/template.h"
#include "runtime/text/text_files.h"
#include "runtime/text/tokenizer_settings.h"

namespace lockstep::text {
namespace {

/// The names of a message's reasoning in requests and in templates; the first one is the usual one.
constexpr std::array<std::string_view, 3> kReasoningFields = {"reasoning_content", "thinking", "reasoning"};

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

/// Gives the reasoning of a message all names that templates read, in transformers' order of keys.
jinja::Dict with_reasoning(jinja::Dict turn) {
  for (const std::string_view field : kReasoningFields) {
    const jinja::Value* found = turn.find(field);
    if (found == nullptr) continue;
    const jinja::Value reasoning = *found;
    jinja::Dict named{{{"thinking", reasoning}}};
    for (auto& [key, value] : turn.items) named.set(std::move(key), std::move(value));
    named.set("reasoning_content", reasoning);
    return named;
  }
  return turn;
}

/// A message as transformers gives it to templates: keys whose value is null are omitted.
Result<jinja::Dict> turn_of(const Message& message) {
  jinja::Dict turn;
  if (!message.role.empty()) turn.items = {{"role", message.role}, {"content", message.content}};
  LOCKSTEP_TRY_VOID(set_all(turn, message.fields_json, "a message"));
  std::erase_if(turn.items, [](const auto& item) { return item.second.is_none(); });
  return with_reasoning(std::move(turn));
}

/// Follows the text that the answer continues while it is rendered: the template's own ending may have the text's words
/// too. The blank shows whether the template trims. The words are those of transformers.
constexpr std::string_view kContinuedHere = "CONTINUE_FINAL_MESSAGE_TAG ";

Error not_continued(std::string_view found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/text] cannot continue the last message: found {}, expected {}", found, expected)};
}

/// Puts kContinuedHere behind the text of `content`, a text or a list whose last part with a text is continued; returns
/// the text without it.
Result<std::string> mark_end(jinja::Value& content) {
  if (const std::string* text = content.string()) {
    std::string before = *text;
    content = before + std::string(kContinuedHere);
    return before;
  }
  if (content.list() == nullptr) return not_continued(fmt::format("a {}", jinja::type_name(content)), "a text");
  jinja::List parts = *content.list();
  const auto last = std::find_if(parts.items.rbegin(), parts.items.rend(), [](const jinja::Value& part) {
    return part.dict() != nullptr && part.dict()->find(std::string_view("text")) != nullptr;
  });
  if (last == parts.items.rend()) return not_continued("no part with a text", "one");
  jinja::Dict part = *last->dict();
  jinja::Value text = *part.find(std::string_view("text"));
  if (text.string() == nullptr) return not_continued("a part whose text is something else", "a text");
  LOCKSTEP_TRY(std::string before, mark_end(text));
  part.set("text", std::move(text));
  *last = jinja::Value(std::move(part));
  content = jinja::Value(std::move(parts));
  return before;
}

/// Marks the end of the last message's `field`, and of the copies of reasoning, of which the template reads one.
Result<std::string> mark_last(jinja::Dict& turn, std::string_view field, std::string_view source) {
  const auto is_reasoning = [](std::string_view name) { return std::ranges::count(kReasoningFields, name) > 0; };
  const jinja::Value* found = turn.find(field);
  if (found == nullptr) return not_continued("none", fmt::format("one with \"{}\"", field));
  const jinja::Value continued = *found;
  bool is_read = false;
  std::string text;
  for (auto& [key, value] : turn.items) {
    const std::string_view name = *key.string();
    if (name != field && !(is_reasoning(field) && is_reasoning(name) && equal(value, continued))) continue;
    is_read = is_read || source.find(name) != std::string_view::npos;
    LOCKSTEP_TRY(text, mark_end(value));
  }
  if (is_read) return text;
  return not_continued(fmt::format("a chat template that does not read \"{}\"", field), "one that does");
}

/// The rendered text up to the end of `text`, which kContinuedHere follows.
Result<std::string> cut_after(std::string rendered, const std::string& text) {
  const std::string words = jinja::strip_text(text, nullptr, jinja::Ends::kBoth);
  const size_t at = rendered.rfind(kContinuedHere.substr(0, kContinuedHere.size() - 1));
  if (at == std::string::npos || rendered.find(words) == std::string::npos) {
    return not_continued("one that the chat template does not show as it is", "its text in the prompt");
  }
  const bool trims = !std::string_view(rendered).substr(at).starts_with(kContinuedHere);
  rendered.resize(at);
  return trims ? jinja::strip_text(rendered, nullptr, jinja::Ends::kRight) : rendered;
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
  JinjaChatTemplate(jinja::Template parsed, std::string_view source) : template_(std::move(parsed)), source_(source) {}

  Result<std::string> render(const std::vector<Message>& messages, const ChatOptions& options) const override {
    if (messages.empty()) {
      return Error{ErrorKind::kInvalidArgument,
                   "[runtime/text] cannot make a chat prompt: found no messages, expected at least one"};
    }
    const bool is_continued = !options.continued_field.empty();
    if (is_continued && options.add_generation_prompt) {
      return not_continued("add_generation_prompt beside it", "one of them");
    }
    jinja::Dict variables;
    variables.set("tools", jinja::Value());
    variables.set("documents", jinja::Value());
    variables.set("add_generation_prompt", options.add_generation_prompt);
    if (!options.bos_token.empty()) variables.set("bos_token", options.bos_token);
    if (!options.eos_token.empty()) variables.set("eos_token", options.eos_token);
    for (const NamedToken& token : options.other_tokens) variables.set(jinja::Value(token.name), token.text);
    jinja::List turns;
    std::string continued;
    for (const Message& message : messages) {
      LOCKSTEP_TRY(jinja::Dict turn, turn_of(message));
      if (is_continued && &message == &messages.back()) {
        LOCKSTEP_TRY(continued, mark_last(turn, options.continued_field, source_));
      }
      turns.items.emplace_back(std::move(turn));
    }
    variables.set("messages", std::move(turns));
    LOCKSTEP_TRY_VOID(set_all(variables, options.variables_json, "the chat template's variables"));
    LOCKSTEP_TRY(std::string rendered, template_.render(std::move(variables), options.now));
    if (!is_continued) return rendered;
    return cut_after(std::move(rendered), continued);
  }

 private:
  jinja::Template template_;
  std::string source_;
};

/// Whether the JSON object `json`, if it has text, has a member `name` that is not null.
Result<bool> has_variable(std::string_view json, std::string_view name) {
  jinja::Dict variables;
  LOCKSTEP_TRY_VOID(set_all(variables, json, "the chat template's variables"));
  const jinja::Value* found = variables.find(name);
  return found != nullptr && !found->is_none();
}

/// In place of a template that cannot be parsed: chats that do not need it go on.
class UnusableTemplate final : public ChatTemplate {
 public:
  explicit UnusableTemplate(Error why) : why_(std::move(why)) {}
  Result<std::string> render(const std::vector<Message>& /*messages*/, const ChatOptions& /*options*/) const override {
    return why_;
  }

 private:
  Error why_;
};

std::optional<std::string> find_template(const TokenizerSettings& settings, const std::string& name) {
  const auto entry = settings.chat_templates.find(name);
  return entry == settings.chat_templates.end() ? std::nullopt : std::optional(entry->second);
}

}  // namespace

Result<std::unique_ptr<ChatTemplate>> parse_chat_template(std::string_view source) {
  LOCKSTEP_TRY(jinja::Template parsed, jinja::Template::parse(source));
  return std::make_unique<JinjaChatTemplate>(std::move(parsed), source);
}

Result<ModelChat> load_chat(const std::filesystem::path& directory) {
  LOCKSTEP_TRY(TokenizerSettings settings, read_tokenizer_settings(directory));
  LOCKSTEP_TRY(auto usual, gguf::read_model_text(directory / kTemplateFile));
  LOCKSTEP_TRY(auto with_tools, gguf::read_model_text(directory / kToolTemplateFile));
  if (!usual && !with_tools) {
    usual = find_template(settings, "default");
    with_tools = find_template(settings, "tool_use");
  }
  if (!usual) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("[runtime/text] cannot make a chat prompt: found no chat template in {}, expected "
                             "chat_template.jinja or chat_template in tokenizer_config.json; give the prompt as plain "
                             "text",
                             directory.string())};
  }
  ModelChat chat;
  LOCKSTEP_TRY(chat.usual.parsed, parse_chat_template(*usual));
  chat.usual.source = *std::move(usual);
  if (with_tools) {
    auto parsed = parse_chat_template(*with_tools);
    chat.with_tools.parsed = parsed.has_value() ? std::move(parsed).assume_value()
                                                : std::make_unique<UnusableTemplate>(std::move(parsed).assume_error());
    chat.with_tools.source = *std::move(with_tools);
  }
  for (SpecialToken& special : settings.named) {
    std::string& text = special.token.content;
    if (special.name == "bos_token") {
      chat.bos_token = std::move(text);
    } else if (special.name == "eos_token") {
      chat.eos_token = std::move(text);
    } else {
      chat.other_tokens.push_back({std::move(special.name), std::move(text)});
    }
  }
  return chat;
}

Result<std::string> render_chat(const ModelChat& chat, const std::vector<Message>& messages, ChatOptions options) {
  if (options.bos_token.empty()) options.bos_token = chat.bos_token;
  if (options.eos_token.empty()) options.eos_token = chat.eos_token;
  if (options.other_tokens.empty()) options.other_tokens = chat.other_tokens;
  if (!options.now) options.now = local_time();
  bool has_tools = false;  // matters only where it chooses
  if (chat.with_tools.parsed) {
    LOCKSTEP_TRY(has_tools, has_variable(options.variables_json, "tools"));
  }
  return chat.template_for(has_tools).parsed->render(messages, options);
}

}  // namespace lockstep::text
