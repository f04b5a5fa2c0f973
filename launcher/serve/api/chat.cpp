#include "launcher/serve/api/chat.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/serve/api/chat_request.h"
#include "launcher/serve/api/request_fields.h"
#include "launcher/serve/api/token_text.h"

namespace lockstep::serve {
namespace {

constexpr int64_t kMostTop = 20;

constexpr UnsupportedField kUnsupported[] = {
    {"functions", "[]"},
    {"function_call", "\"none\""},
    {"audio"},
    {"modalities", "[\"text\"]"},
    {"prediction"},
    {"web_search_options"},
    {"verbosity", "\"medium\""},
    {"echo"},
    {"prompt_logprobs"},
    {"use_beam_search"},
    {"best_of", "1"},
    {"length_penalty", "1.0"},
    {"early_stopping"},
    {"include_stop_str_in_output"},
    {"truncate_prompt_tokens"},
    {"bad_words", "[]"},
    {"allowed_token_ids"},
    {"logits_processors", "[]"},
    {"chat_template"},
    {"documents", "[]"},
    {"mm_processor_kwargs"},
    {"structural_tag"},
    {"kv_transfer_params"},
};

struct ChatFields {
  StreamFields stream;
  bool logprobs = false;
  int top = 0;
  bool return_ids = false;
};

class ChatWriter final : public ProtocolWriter {
 public:
  ChatWriter(const ReadContext& context, const ChatFields& fields)
      : fields_(fields),
        request_id_(context.request_id),
        created_(context.created),
        model_(context.model),
        tokenizer_(&context.text->tokenizer()) {}

  std::string begin(const Usage& usage) override {
    usage_ = usage;
    return {};
  }

  std::string begin_choice(size_t index, const Prompt& prompt, const std::vector<EngineScore>&) override {
    Json body = chunk(index, {{"role", "assistant"}, {"content", ""}});
    if (fields_.return_ids) body["prompt_token_ids"] = prompt.ids;
    return event_of(body);
  }

  std::string part(const ChoicePart& part) override {
    usage_ = part.usage;
    std::vector<Json> deltas;
    for (const OutputPiece& piece : part.pieces) {
      if (Json delta = delta_of(part.index, piece); !delta.is_null()) deltas.push_back(std::move(delta));
    }
    const bool has_more = fields_.logprobs || fields_.return_ids || fields_.stream.continuous_usage;
    if (deltas.empty() && has_more) deltas.push_back({{"content", ""}});
    std::string bytes;
    for (size_t i = 0; i < deltas.size(); ++i) {
      Json body = chunk(part.index, std::move(deltas[i]));
      if (i == 0) add_tokens(body["choices"][0], part.tokens);
      bytes += event_of(body);
    }
    return bytes;
  }

  std::string end_choice(const ChoiceEnd& end) override {
    usage_ = end.usage;
    Json body = chunk(end.index, Json::object());
    body["choices"][0]["finish_reason"] = finish_text(end.reason);
    return event_of(body);
  }

  std::string end(const Usage& usage) override {
    std::string bytes;
    if (fields_.stream.include_usage) {
      Json last = head("chat.completion.chunk");
      last["choices"] = Json::array();
      last["usage"] = usage_json(usage);
      bytes = event_of(last);
    }
    return bytes + "data: [DONE]\n\n";
  }

  std::string failure(const ApiError& error) override { return "data: " + error_json(error) + "\n\ndata: [DONE]\n\n"; }

  std::string whole(const Generation& request, const std::vector<Choice>& choices,
                    const std::vector<std::vector<EngineScore>>& /*scores*/, const Usage& usage) override {
    Json answer = head("chat.completion");
    answer["choices"] = Json::array();
    for (const Choice& choice : choices) {
      Json entry = {{"index", choice.index}, {"message", message_of(choice)}, {"logprobs", nullptr}};
      add_tokens(entry, choice.tokens);
      entry["finish_reason"] = finish_text(choice.reason);
      answer["choices"].push_back(std::move(entry));
    }
    answer["usage"] = usage_json(usage);
    if (fields_.return_ids) answer["prompt_token_ids"] = request.prompts.front().ids;
    return to_line(answer);
  }

 private:
  Json head(std::string_view object) const {
    return {{"id", "chatcmpl-" + request_id_}, {"object", object}, {"created", created_}, {"model", model_}};
  }

  std::string call_id(size_t choice, size_t tool) const {
    return fmt::format("call_{}_{}_{}", request_id_, choice, tool);
  }

  Json chunk(size_t index, Json delta) const {
    Json body = head("chat.completion.chunk");
    body["choices"] = Json::array(
        {{{"index", index}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", nullptr}}});
    if (fields_.stream.continuous_usage) {
      body["usage"] = usage_json(usage_);
    } else if (fields_.stream.include_usage) {
      body["usage"] = nullptr;
    }
    return body;
  }

  /// Of a call, the first delta has index, id, type and name; the others the index and arguments only.
  Json delta_of(size_t choice, const OutputPiece& piece) const {
    using Kind = OutputPiece::Kind;
    switch (piece.kind) {
      case Kind::kContent: return {{"content", piece.text}};
      case Kind::kReasoning: return {{"reasoning_content", piece.text}};
      case Kind::kToolBegin: {
        Json call = {{"index", piece.tool},
                     {"id", call_id(choice, static_cast<size_t>(piece.tool))},
                     {"type", "function"},
                     {"function", {{"name", piece.text}, {"arguments", ""}}}};
        return {{"tool_calls", Json::array({std::move(call)})}};
      }
      case Kind::kToolArguments: {
        Json call = {{"index", piece.tool}, {"function", {{"arguments", piece.text}}}};
        return {{"tool_calls", Json::array({std::move(call)})}};
      }
      case Kind::kToolEnd: break;
    }
    return {};
  }

  Json message_of(const Choice& choice) const {
    Json message = {
        {"role", "assistant"}, {"content", choice.content}, {"refusal", nullptr}, {"annotations", Json::array()}};
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    if (choice.tools.empty()) return message;
    if (choice.content.empty()) message["content"] = nullptr;
    message["tool_calls"] = Json::array();
    for (const ReadToolCall& call : choice.tools) {
      message["tool_calls"].push_back({{"id", call_id(choice.index, message["tool_calls"].size())},
                                       {"type", "function"},
                                       {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    return message;
  }

  void add_tokens(Json& entry, const std::vector<EngineToken>& tokens) const {
    if (fields_.logprobs) entry["logprobs"] = {{"content", chat_logprobs(*tokenizer_, tokens, fields_.top)}};
    if (!fields_.return_ids) return;
    Json ids = Json::array();
    for (const EngineToken& token : tokens) ids.push_back(token.id);
    entry["token_ids"] = std::move(ids);
  }

  ChatFields fields_;
  std::string request_id_;
  int64_t created_;
  std::string model_;
  const text::Tokenizer* tokenizer_;
  Usage usage_;
};

ApiResult<ChatFields> read_fields(const BodyField& body) {
  ChatFields fields;
  LOCKSTEP_TRY(fields.stream, read_stream(body));
  LOCKSTEP_TRY(fields.logprobs, body.flag_or("logprobs", false));
  LOCKSTEP_TRY(fields.return_ids, body.flag_or("return_token_ids", false));
  LOCKSTEP_TRY(const auto top, body.whole_within("top_logprobs", 0, kMostTop));
  fields.top = static_cast<int>(top.value_or(0));
  if (fields.top > 0 && !fields.logprobs) {
    return invalid_field("top_logprobs", "top_logprobs: found it without logprobs; add \"logprobs\": true");
  }
  return fields;
}

/// Variables of the template: chat_template_kwargs and reasoning_effort.
ApiResult<std::string> read_variables(const BodyField& body) {
  Json variables = Json::object();
  if (const auto effort = body.find("reasoning_effort")) {
    LOCKSTEP_TRY(variables["reasoning_effort"], effort->text());
  }
  if (const auto field = body.find("chat_template_kwargs")) {
    LOCKSTEP_TRY(const BodyField object, field->object());
    for (const auto& [name, value] : object.value().items()) variables[name] = value;
  }
  return to_line(variables);
}

ApiResult<std::optional<int64_t>> read_chat_length(const BodyField& body, Generation& generation) {
  for (const std::string_view name : {"max_completion_tokens", "max_tokens"}) {
    LOCKSTEP_TRY(const auto length, read_length(body, name, 1));
    if (!length) continue;
    generation.length_field = name;
    return length;
  }
  return std::optional<int64_t>();
}

class Chat final : public Protocol {
 public:
  ApiResult<Outcome> read(const BodyField& body, const ReadContext& context) const override {
    LOCKSTEP_TRY_VOID(check_model(body, context));
    LOCKSTEP_TRY_VOID(refuse_unsupported(body, kUnsupported));
    LOCKSTEP_TRY(const ChatFields fields, read_fields(body));
    Generation generation;
    generation.stream = fields.stream.stream;
    if (fields.logprobs) generation.logprobs = fields.top;
    LOCKSTEP_TRY(const auto n, body.whole_within("n", 1, static_cast<int64_t>(context.most_choices)));
    generation.choices = static_cast<size_t>(n.value_or(1));
    LOCKSTEP_TRY_VOID(read_sampling(body, context, generation));
    LOCKSTEP_TRY(generation.max_new_tokens, read_chat_length(body, generation));
    LOCKSTEP_TRY(const std::string constraint, read_constraint(body));
    LOCKSTEP_TRY(const ChatRequest request, read_chat(body));
    LOCKSTEP_TRY_VOID(prepare_chat(request, context, constraint, generation));
    LOCKSTEP_TRY_VOID(fit_lengths(context, generation));
    auto writer = std::make_unique<ChatWriter>(context, fields);
    return Outcome(ReadRequest{std::move(generation), std::move(writer)});
  }

  HttpResponse refuse(const ApiError& error) const override { return api_error(error); }

 private:
  static ApiResult<ChatRequest> read_chat(const BodyField& body) {
    ChatRequest request;
    LOCKSTEP_TRY(const BodyField messages, body.at("messages"));
    LOCKSTEP_TRY(request.messages, read_messages(messages));
    LOCKSTEP_TRY_VOID(read_tools(body, request));
    LOCKSTEP_TRY(request.variables, read_variables(body));
    LOCKSTEP_TRY(request.continue_final, body.flag_or("continue_final_message", false));
    LOCKSTEP_TRY(request.add_generation_prompt, body.flag_or("add_generation_prompt", !request.continue_final));
    LOCKSTEP_TRY(request.add_special_tokens, body.flag_or("add_special_tokens", false));
    LOCKSTEP_TRY(request.reads_reasoning, body.flag_or("separate_reasoning", true));
    if (request.continue_final && request.add_generation_prompt) {
      return invalid_field("continue_final_message",
                           "continue_final_message: found it beside add_generation_prompt, expected one of them");
    }
    return request;
  }
};

}  // namespace

std::unique_ptr<Protocol> make_chat() { return std::make_unique<Chat>(); }

}  // namespace lockstep::serve
