#include "launcher/serve/api/completions.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/serve/api/request_fields.h"
#include "launcher/serve/api/token_text.h"

namespace lockstep::serve {
namespace {

constexpr int64_t kDefaultLength = 16;  // OpenAI's
constexpr int64_t kMostTop = 20;

constexpr UnsupportedField kUnsupported[] = {
    {"suffix", "\"\""},          {"prompt_logprobs"},      {"use_beam_search"},
    {"length_penalty", "1.0"},   {"early_stopping"},       {"include_stop_str_in_output"},
    {"truncate_prompt_tokens"},  {"bad_words", "[]"},      {"allowed_token_ids"},
    {"logits_processors", "[]"}, {"prompt_embeds"},        {"guided_decoding_backend"},
    {"logprob_token_ids", "[]"}, {"repetition_detection"}, {"kv_transfer_params"},
};

/// What the writer needs of the body.
struct CompletionFields {
  StreamFields stream;
  std::optional<int> logprobs;
  bool echo = false;
  bool return_ids = false;
  text::SpecialPieces special = text::SpecialPieces::kSkip;  // in the answer's text
};

class CompletionWriter final : public ProtocolWriter {
 public:
  CompletionWriter(const ReadContext& context, const CompletionFields& fields)
      : fields_(fields),
        id_("cmpl-" + context.request_id),
        created_(context.created),
        model_(context.model),
        tokenizer_(&context.text->tokenizer()) {}

  std::string begin(const Usage& usage) override {
    usage_ = usage;
    return {};
  }

  std::string begin_choice(size_t index, const Prompt& prompt, const std::vector<EngineScore>& scores) override {
    auto& logprobs = logprobs_[index];
    if (fields_.logprobs) {
      logprobs = std::make_unique<CompletionLogprobs>(*tokenizer_, *fields_.logprobs, fields_.special);
    }
    if (!fields_.echo) return fields_.return_ids ? chunk(index, "", {}, &prompt, {}) : std::string();
    if (logprobs) logprobs->add_prompt(prompt, scores);
    return chunk(index, prompt.text, {}, fields_.return_ids ? &prompt : nullptr, {});
  }

  std::string part(const ChoicePart& part) override {
    usage_ = part.usage;
    std::string text;
    for (const OutputPiece& piece : part.pieces) text += piece.text;
    auto& logprobs = logprobs_[part.index];
    if (logprobs) logprobs->add(part.tokens);
    const bool silent = text.empty() && !logprobs && !fields_.return_ids && !fields_.stream.continuous_usage;
    return silent ? std::string() : chunk(part.index, text, part.tokens, nullptr, {});
  }

  std::string end_choice(const ChoiceEnd& end) override {
    usage_ = end.usage;
    logprobs_[end.index].reset();
    return chunk(end.index, "", {}, nullptr, finish_text(end.reason));
  }

  std::string end(const Usage& usage) override {
    std::string bytes;
    if (fields_.stream.include_usage) {
      Json last = head();
      last["choices"] = Json::array();
      last["usage"] = usage_json(usage);
      bytes = event_of(last);
    }
    return bytes + "data: [DONE]\n\n";
  }

  std::string failure(const ApiError& error) override { return "data: " + error_json(error) + "\n\ndata: [DONE]\n\n"; }

  std::string whole(const Generation& request, const std::vector<Choice>& choices,
                    const std::vector<std::vector<EngineScore>>& scores, const Usage& usage) override {
    Json answer = head();
    answer["choices"] = Json::array();
    for (const Choice& choice : choices) {
      const Prompt& prompt = request.prompts[choice.prompt];
      Json logprobs;
      if (fields_.logprobs) {
        CompletionLogprobs collected(*tokenizer_, *fields_.logprobs, fields_.special);
        if (fields_.echo) collected.add_prompt(prompt, scores[choice.prompt]);
        collected.add(choice.tokens);
        logprobs = collected.take();
      }
      Json entry = {{"index", choice.index},
                    {"text", fields_.echo ? prompt.text + choice.content : choice.content},
                    {"logprobs", std::move(logprobs)},
                    {"finish_reason", finish_text(choice.reason)}};
      if (fields_.return_ids) add_ids(entry, choice.tokens, &prompt);
      answer["choices"].push_back(std::move(entry));
    }
    answer["usage"] = usage_json(usage);
    return to_line(answer);
  }

 private:
  Json head() const { return {{"id", id_}, {"object", "text_completion"}, {"created", created_}, {"model", model_}}; }

  static void add_ids(Json& entry, const std::vector<EngineToken>& tokens, const Prompt* prompt) {
    if (prompt != nullptr) entry["prompt_token_ids"] = prompt->ids;
    Json ids = Json::array();
    for (const EngineToken& token : tokens) ids.push_back(token.id);
    entry["token_ids"] = std::move(ids);
  }

  /// `finish` empty: null.
  std::string chunk(size_t index, const std::string& text, const std::vector<EngineToken>& tokens, const Prompt* prompt,
                    std::string_view finish) {
    auto& logprobs = logprobs_[index];
    Json entry = {{"index", index},
                  {"text", text},
                  {"logprobs", logprobs ? logprobs->take() : Json()},
                  {"finish_reason", finish.empty() ? Json() : Json(finish)}};
    if (fields_.return_ids) add_ids(entry, tokens, prompt);
    Json body = head();
    body["choices"] = Json::array({std::move(entry)});
    if (fields_.stream.continuous_usage) {
      body["usage"] = usage_json(usage_);
    } else if (fields_.stream.include_usage) {
      body["usage"] = nullptr;
    }
    return event_of(body);
  }

  CompletionFields fields_;
  std::string id_;
  int64_t created_;
  std::string model_;
  const text::Tokenizer* tokenizer_;
  Usage usage_;
  std::map<size_t, std::unique_ptr<CompletionLogprobs>> logprobs_;  // of running choices
};

ApiResult<Prompt> prompt_of_text(const BodyField& field, const ReadContext& context, text::SpecialTokens special) {
  LOCKSTEP_TRY(std::string text, field.text());
  auto ids = context.text->tokenizer().encode_within(text, special, static_cast<size_t>(context.capacity));
  if (!ids.has_value()) return field.invalid(ids.error().message);
  if (!ids.value()) return prompt_exceeded(context.capacity, field.path());
  if (ids.value()->empty()) return field.invalid("found no tokens, expected at least one");
  return Prompt{.ids = *std::move(ids).assume_value(), .text = std::move(text)};
}

ApiResult<Prompt> prompt_of_ids(const BodyField& field, const ReadContext& context) {
  LOCKSTEP_TRY(auto ids, field.ids(context.vocabulary));
  if (ids.empty()) return field.invalid("found no tokens, expected at least one");
  auto text = context.text->tokenizer().decode(ids, text::SpecialPieces::kSkip);
  // A model may have ids without a token; they have no text.
  return Prompt{.ids = std::move(ids), .text = text.has_value() ? std::move(text).assume_value() : std::string()};
}

/// A text, a list of ids, or a list of texts and lists of ids.
ApiResult<std::vector<Prompt>> read_prompts(const BodyField& body, const ReadContext& context) {
  LOCKSTEP_TRY(const BodyField field, body.at("prompt"));
  LOCKSTEP_TRY(const bool adds_special, body.flag_or("add_special_tokens", true));
  const auto special = adds_special ? text::SpecialTokens::kAdd : text::SpecialTokens::kOmit;
  const Json& value = field.value();
  std::vector<Prompt> prompts;
  if (value.is_string()) {
    LOCKSTEP_TRY(prompts.emplace_back(), prompt_of_text(field, context, special));
    return prompts;
  }
  if (!value.is_array() || value.empty()) {
    return field.expected("a text, a list of token ids, or a list of these, not empty");
  }
  if (value.front().is_number()) {
    LOCKSTEP_TRY(prompts.emplace_back(), prompt_of_ids(field, context));
    return prompts;
  }
  LOCKSTEP_TRY(const auto elements, field.elements());
  if (elements.size() > context.most_choices) {
    return field.invalid(fmt::format("found {} prompts, expected at most {}", elements.size(), context.most_choices));
  }
  for (const BodyField& element : elements) {
    if (element.value().is_string()) {
      LOCKSTEP_TRY(prompts.emplace_back(), prompt_of_text(element, context, special));
    } else if (element.value().is_array()) {
      LOCKSTEP_TRY(prompts.emplace_back(), prompt_of_ids(element, context));
    } else {
      return element.expected("a text or a list of token ids");
    }
  }
  return prompts;
}

ApiResult<CompletionFields> read_fields(const BodyField& body) {
  CompletionFields fields;
  LOCKSTEP_TRY(fields.stream, read_stream(body));
  LOCKSTEP_TRY(fields.echo, body.flag_or("echo", false));
  LOCKSTEP_TRY(fields.return_ids, body.flag_or("return_token_ids", false));
  if (const auto field = body.find("logprobs"); field && field->value() != Json(false)) {
    LOCKSTEP_TRY(const auto top, body.whole_within("logprobs", 0, kMostTop));
    fields.logprobs = static_cast<int>(*top);
  }
  return fields;
}

/// n, best_of and their contradictions.
ApiResult<void> read_counts(const BodyField& body, const ReadContext& context, Generation& generation) {
  const auto most = static_cast<int64_t>(context.most_choices);
  LOCKSTEP_TRY(const auto n, body.whole_within("n", 1, most));
  LOCKSTEP_TRY(const auto best_of, body.whole_within("best_of", 1, most));
  generation.choices = static_cast<size_t>(n.value_or(1));
  if (!best_of) return ok();
  generation.best_of = static_cast<size_t>(*best_of);
  if (generation.best_of < generation.choices) {
    return invalid_field(
        "best_of", fmt::format("best_of: found {}, expected at least n, which is {}", *best_of, generation.choices));
  }
  if (generation.stream && generation.best_of > generation.choices) {
    return invalid_field("best_of",
                         "best_of: found it beside stream, expected one of them; the best answer is known "
                         "only at the end");
  }
  return ok();
}

class Completions final : public Protocol {
 public:
  ApiResult<Outcome> read(const BodyField& body, const ReadContext& context) const override {
    LOCKSTEP_TRY_VOID(check_model(body, context));
    LOCKSTEP_TRY_VOID(refuse_unsupported(body, kUnsupported));
    LOCKSTEP_TRY(CompletionFields fields, read_fields(body));
    Generation generation;
    generation.stream = fields.stream.stream;
    generation.logprobs = fields.logprobs;
    LOCKSTEP_TRY_VOID(read_counts(body, context, generation));
    LOCKSTEP_TRY_VOID(read_sampling(body, context, generation));
    if (generation.special_text) fields.special = text::SpecialPieces::kKeep;
    LOCKSTEP_TRY(generation.constraint, read_constraint(body));
    LOCKSTEP_TRY(const auto length, read_length(body, "max_tokens", fields.echo ? 0 : 1));
    generation.max_new_tokens = length.value_or(kDefaultLength);
    LOCKSTEP_TRY(generation.prompts, read_prompts(body, context));
    generation.scores_prompt = fields.echo && fields.logprobs;
    generation.shorten = !length;
    LOCKSTEP_TRY_VOID(fit_lengths(context, generation));
    auto writer = std::make_unique<CompletionWriter>(context, fields);
    return Outcome(ReadRequest{std::move(generation), std::move(writer)});
  }

  HttpResponse refuse(const ApiError& error) const override { return api_error(error); }
};

}  // namespace

std::unique_ptr<Protocol> make_completions() { return std::make_unique<Completions>(); }

}  // namespace lockstep::serve
