#include "launcher/serve/api/model_text.h"

#include <nlohmann/json.hpp>

#include "runtime/core/json_depth.h"
#include "runtime/gguf/model_texts.h"

namespace lockstep::serve {
namespace {

Result<nlohmann::json> read_object(const std::filesystem::path& path) {
  LOCKSTEP_TRY(const auto text, gguf::read_model_text(path));
  auto parsed = parse_shallow<nlohmann::json>(text.value_or(""));
  return parsed.is_object() ? std::move(parsed) : nlohmann::json::object();
}

/// `eos_token_id`: an id or a list.
std::vector<int32_t> ids_of(const nlohmann::json& config) {
  const auto found = config.find("eos_token_id");
  if (found == config.end()) return {};
  std::vector<int32_t> ids;
  for (const auto& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (id.is_number_integer()) ids.push_back(id.get<int32_t>());
  }
  return ids;
}

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
  LOCKSTEP_TRY(const auto generation, read_object(directory / "generation_config.json"));
  LOCKSTEP_TRY(const auto config, read_object(directory / "config.json"));
  facts.end_ids = ids_of(generation);
  if (facts.end_ids.empty()) facts.end_ids = ids_of(config);
  facts.sets_top_k = generation.contains("top_k");
  return std::make_unique<const ModelText>(std::move(tokenizer), std::move(chat), std::move(facts));
}

ModelText::ModelText(std::unique_ptr<text::Tokenizer> tokenizer, std::optional<text::ModelChat> chat, ModelFacts facts)
    : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)), facts_(std::move(facts)) {
  if (!chat_) return;
  format_ = detect_format(chat_->template_for(/*has_tools=*/true).source, generation_prompt(*chat_));
  shows_user_after_result_ = takes_user_after_result(*chat_);
}

}  // namespace lockstep::serve
