#include "launcher/serve/api/model_text.h"

#include <algorithm>

#include "runtime/generation/generation_config.h"

namespace lockstep::serve {
namespace {

/// The generation prompt of a short conversation; empty when the template refuses it.
std::string generation_prompt(const text::ModelChat& chat) {
  const auto rendered = text::render_chat(chat, {{"user", "a"}}, {});
  return rendered.has_value() ? rendered.value() : std::string();
}

/// The template is asked with a short conversation.
bool takes_user_after_result(const text::ModelChat& chat) {
  constexpr const char* kCall =
      R"({"tool_calls": [{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": {}}}]})";
  constexpr const char* kResult = R"({"tool_call_id": "call00000", "name": "f"})";
  const std::vector<text::Message> messages = {
      {"user", "a"}, {"assistant", "", kCall}, {"tool", "b", kResult}, {"user", "c"}};
  text::ChatOptions options;
  if (chat.with_tools.parsed) options.variables_json = R"({"tools": []})";
  return text::render_chat(chat, messages, std::move(options)).has_value();
}

}  // namespace

Result<std::unique_ptr<const ModelText>> ModelText::load(const std::filesystem::path& directory) {
  ModelFacts facts;
  LOCKSTEP_TRY(auto tokenizer, text::load_tokenizer(directory));
  std::optional<text::ModelChat> chat;
  if (auto loaded = text::load_chat(directory); loaded.has_value()) {
    chat = std::move(loaded).assume_value();
  } else if (loaded.error().kind != ErrorKind::kNotFound) {
    return loaded.error();
  }
  LOCKSTEP_TRY(generation::LoadedConfig loaded, generation::read_generation_config(directory));
  facts.end_ids = std::move(loaded.config.eos_token_ids);
  facts.sets_top_k = std::ranges::binary_search(loaded.present, "top_k");
  return std::make_unique<const ModelText>(std::move(tokenizer), std::move(chat), std::move(facts));
}

ModelText::ModelText(std::unique_ptr<text::Tokenizer> tokenizer, std::optional<text::ModelChat> chat, ModelFacts facts)
    : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)), facts_(std::move(facts)) {
  if (!chat_) return;
  format_ = detect_format(chat_->template_for(/*has_tools=*/true).source, generation_prompt(*chat_));
  shows_user_after_result_ = takes_user_after_result(*chat_);
}

}  // namespace lockstep::serve
