#include "launcher/serve/api/text_endpoints.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/serve/api/chat_request.h"
#include "launcher/serve/api/request_fields.h"
#include "launcher/serve/api/token_text.h"

namespace lockstep::serve {
namespace {

HttpResponse answer_of(const Json& body) { return {.body = to_line(body)}; }

class Tokenize final : public Protocol {
 public:
  ApiResult<Outcome> read(const BodyField& body, const ReadContext& context) const override {
    LOCKSTEP_TRY_VOID(check_model(body, context));
    LOCKSTEP_TRY(const auto ids, body.find("messages") ? ids_of_chat(body, context) : ids_of_text(body, context));
    Json answer = {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", context.capacity}};
    LOCKSTEP_TRY(const bool texts, body.flag_or("return_token_strs", false));
    if (texts) {
      answer["token_strs"] = Json::array();
      for (const int32_t id : ids) answer["token_strs"].push_back(token_text(context.text->tokenizer(), id));
    }
    return Outcome(answer_of(answer));
  }

  HttpResponse refuse(const ApiError& error) const override { return api_error(error); }

 private:
  static ApiResult<std::vector<int32_t>> ids_of_text(const BodyField& body, const ReadContext& context) {
    LOCKSTEP_TRY(const BodyField prompt, body.at("prompt"));
    LOCKSTEP_TRY(const std::string text, prompt.text());
    LOCKSTEP_TRY(const bool special, body.flag_or("add_special_tokens", true));
    auto ids = context.text->tokenizer().encode(text, special ? text::SpecialTokens::kAdd : text::SpecialTokens::kOmit);
    if (!ids.has_value()) return prompt.invalid(ids.error().message);
    return std::move(ids).assume_value();
  }

  static ApiResult<std::vector<int32_t>> ids_of_chat(const BodyField& body, const ReadContext& context) {
    ChatRequest request;
    LOCKSTEP_TRY(const BodyField messages, body.at("messages"));
    LOCKSTEP_TRY(request.messages, read_messages(messages));
    LOCKSTEP_TRY_VOID(read_tools(body, request));
    LOCKSTEP_TRY(request.continue_final, body.flag_or("continue_final_message", false));
    LOCKSTEP_TRY(request.add_generation_prompt, body.flag_or("add_generation_prompt", true));
    LOCKSTEP_TRY(request.add_special_tokens, body.flag_or("add_special_tokens", false));
    if (const auto variables = body.find("chat_template_kwargs")) {
      LOCKSTEP_TRY(const BodyField object, variables->object());
      request.variables = object.dump();
    }
    LOCKSTEP_TRY(Prompt prompt, chat_prompt(request, context));
    return std::move(prompt.ids);
  }
};

class Detokenize final : public Protocol {
 public:
  ApiResult<Outcome> read(const BodyField& body, const ReadContext& context) const override {
    LOCKSTEP_TRY_VOID(check_model(body, context));
    LOCKSTEP_TRY(const BodyField tokens, body.at("tokens"));
    LOCKSTEP_TRY(const auto ids, tokens.ids(context.vocabulary));
    const auto text = context.text->tokenizer().decode(ids, text::SpecialPieces::kKeep);
    if (!text.has_value()) return tokens.invalid(text.error().message);
    return Outcome(answer_of({{"prompt", text.value()}}));
  }

  HttpResponse refuse(const ApiError& error) const override { return api_error(error); }
};

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

std::unique_ptr<Protocol> make_tokenize() { return std::make_unique<Tokenize>(); }
std::unique_ptr<Protocol> make_detokenize() { return std::make_unique<Detokenize>(); }

HttpResponse tokenizer_info(const ReadContext& context) {
  const ModelText& text = *context.text;
  const text::ModelChat* chat = text.chat();
  std::string end = chat != nullptr ? chat->eos_token : std::string();
  if (end.empty() && !text.facts().end_ids.empty()) {
    end = text.tokenizer().token_of(text.facts().end_ids.front()).value_or("");
  }
  return answer_of({{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"eos_token", text_or_null(end)},
                    {"bos_token", text_or_null(chat != nullptr ? chat->bos_token : std::string())},
                    {"eos_token_id", text.facts().end_ids},
                    {"vocab_size", context.vocabulary},
                    {"model_max_length", context.capacity},
                    {"chat_template", text_or_null(chat != nullptr ? chat->usual.source : std::string())}});
}

HttpResponse models(const ReadContext& context, int64_t since, std::optional<std::string_view> id) {
  const Json model = {{"id", context.model},    {"object", "model"},     {"created", since},
                      {"owned_by", "lockstep"}, {"root", context.model}, {"max_model_len", context.capacity}};
  if (!id) {
    return answer_of({{"object", "list"}, {"data", Json::array({model})}, {"models", Json::array({model})}});
  }
  if (*id == context.model) return answer_of(model);
  return api_error(404, "invalid_request_error", "model_not_found", "model",
                   fmt::format("found no model \"{}\", expected \"{}\"", *id, context.model));
}

}  // namespace lockstep::serve
