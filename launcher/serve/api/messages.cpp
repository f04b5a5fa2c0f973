#include "launcher/serve/api/messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/serve/api/messages_request.h"
#include "launcher/serve/api/named_event.h"
#include "launcher/serve/api/request_fields.h"

namespace lockstep::serve {
namespace {

constexpr UnsupportedField kUnsupported[] = {
    {"container"},
    {"mcp_servers", "[]"},
};

/// The protocol's names of errors, by status.
std::string_view error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

Json error_of(const ApiError& error) {
  return {{"type", "error"}, {"error", {{"type", error_type(error.status)}, {"message", error.message}}}};
}

Json text_block(std::string_view text) { return {{"type", "text"}, {"text", text}, {"citations", nullptr}}; }

/// The whole prompt counts as input: `cache_control` is ignored, so no token is billed as read from a cache.
Json usage_of(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", 0},
          {"output_tokens", usage.new_tokens},
          {"service_tier", "standard"},
          {"cache_creation", nullptr},  // the rest: the protocol requires them
          {"inference_geo", nullptr},
          {"output_tokens_details", nullptr},
          {"server_tool_use", nullptr}};
}

class MessageWriter final : public ProtocolWriter {
 public:
  explicit MessageWriter(const ReadContext& context) : request_id_(context.request_id), model_(context.model) {}

  std::string begin(const Usage& usage) override {
    const Json start = {{"type", "message_start"}, {"message", message(Json::array(), usage)}};
    return named_event(start) + named_event({{"type", "ping"}});
  }

  std::string begin_choice(size_t, const Prompt&, const std::vector<EngineScore>&) override { return {}; }

  std::string part(const ChoicePart& part) override {
    std::string bytes;
    for (const OutputPiece& piece : part.pieces) bytes += put(piece);
    return bytes;
  }

  std::string end_choice(const ChoiceEnd& end) override {
    note_end(end.reason, end.stop_string);
    return end_block();
  }

  std::string end(const Usage& usage) override {
    const Json delta = {{"type", "message_delta"},
                        {"delta", {{"stop_reason", stop_reason_}, {"stop_sequence", stop_sequence_}}},
                        {"usage", usage_of(usage)}};
    return named_event(delta) + named_event({{"type", "message_stop"}});
  }

  std::string failure(const ApiError& error) override { return named_event(error_of(error)); }

  std::string whole(const Generation&, const std::vector<Choice>& choices, const std::vector<std::vector<EngineScore>>&,
                    const Usage& usage) override {
    const Choice& choice = choices.front();
    note_end(choice.reason, choice.stop_string);
    Json content = Json::array();
    if (!choice.reasoning.empty()) {
      content.push_back({{"type", "thinking"}, {"thinking", choice.reasoning}, {"signature", ""}});
    }
    if (!choice.content.empty()) content.push_back(text_block(choice.content));
    for (const ReadToolCall& call : choice.tools) {
      const auto input = parse_body(call.arguments);
      content.push_back({{"type", "tool_use"},
                         {"id", call_id()},
                         {"name", call.name},
                         {"input", input.has_value() ? *input.value() : Json::object()}});
    }
    return to_line(message(std::move(content), usage));
  }

 private:
  using Kind = OutputPiece::Kind;

  std::string call_id() { return fmt::format("toolu_{}_{}", request_id_, calls_++); }

  Json message(Json content, const Usage& usage) const {
    return {{"id", "msg_" + request_id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model_},
            {"content", std::move(content)},
            {"stop_reason", stop_reason_},
            {"stop_sequence", stop_sequence_},
            {"stop_details", nullptr},
            {"container", nullptr},
            {"usage", usage_of(usage)}};
  }

  void note_end(FinishReason reason, const std::string& stop_string) {
    stop_reason_ = "end_turn";
    if (reason == FinishReason::kLength) stop_reason_ = "max_tokens";
    if (reason == FinishReason::kToolCalls) stop_reason_ = "tool_use";
    if (reason != FinishReason::kStop || stop_string.empty()) return;
    stop_reason_ = "stop_sequence";
    stop_sequence_ = stop_string;
  }

  std::string put(const OutputPiece& piece) {
    switch (piece.kind) {
      case Kind::kToolBegin:
        return begin_block(piece.kind,
                           {{"type", "tool_use"}, {"id", call_id()}, {"name", piece.text}, {"input", Json::object()}});
      case Kind::kToolArguments: return delta({{"type", "input_json_delta"}, {"partial_json", piece.text}});
      case Kind::kToolEnd: return end_block();
      case Kind::kContent: return add(piece.kind, text_block(""), {{"type", "text_delta"}, {"text", piece.text}});
      case Kind::kReasoning:
        return add(piece.kind, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}},
                   {{"type", "thinking_delta"}, {"thinking", piece.text}});
    }
    return {};
  }

  /// A change of a block, which begins unless one of this kind is open.
  std::string add(Kind kind, Json block, Json change) {
    const std::string begun = open_ == kind ? std::string() : begin_block(kind, std::move(block));
    return begun + delta(std::move(change));
  }

  std::string begin_block(Kind kind, Json block) {
    std::string bytes = end_block();
    open_ = kind;
    return bytes +
           named_event({{"type", "content_block_start"}, {"index", block_}, {"content_block", std::move(block)}});
  }

  std::string delta(Json change) const {
    return named_event({{"type", "content_block_delta"}, {"index", block_}, {"delta", std::move(change)}});
  }

  std::string end_block() {
    if (!open_) return {};
    std::string bytes;
    if (open_ == Kind::kReasoning) bytes = delta({{"type", "signature_delta"}, {"signature", ""}});
    open_.reset();
    return bytes + named_event({{"type", "content_block_stop"}, {"index", block_++}});
  }

  std::string request_id_, model_;
  std::optional<Kind> open_;  // block
  int block_ = 0, calls_ = 0;
  Json stop_reason_, stop_sequence_;
};

ApiResult<void> read_stop_sequences(const BodyField& body, Generation& generation) {
  const auto field = body.find("stop_sequences");
  if (!field) return ok();
  LOCKSTEP_TRY(const auto elements, field->elements());
  std::vector<std::string> stops;
  for (const BodyField& element : elements) {
    LOCKSTEP_TRY(stops.emplace_back(), element.text());
    if (stops.back().empty()) return element.invalid("found an empty text, expected at least one character");
  }
  if (stops.size() > 16) return field->invalid("found more than 16 texts, expected at most 16");
  if (!stops.empty()) generation.options["stop_strings"] = to_line(Json(stops));
  return ok();
}

class Messages final : public Protocol {
 public:
  ApiResult<Outcome> read(const BodyField& body, const ReadContext& context) const override {
    LOCKSTEP_TRY_VOID(check_model(body, context));
    LOCKSTEP_TRY_VOID(refuse_unsupported(body, kUnsupported));
    Generation generation;
    LOCKSTEP_TRY(generation.stream, body.flag_or("stream", false));
    LOCKSTEP_TRY_VOID(read_sampling(body, context, generation));
    LOCKSTEP_TRY_VOID(read_stop_sequences(body, generation));
    LOCKSTEP_TRY_VOID(body.at("max_tokens"));
    LOCKSTEP_TRY(generation.max_new_tokens, read_length(body, "max_tokens", 1));
    generation.shorten = true;  // clients ask for their own model's most, whatever the prompt
    LOCKSTEP_TRY(const std::string constraint, read_output_format(body));
    LOCKSTEP_TRY(const ChatRequest request, read_messages_request(body, context));
    LOCKSTEP_TRY_VOID(prepare_chat(request, context, constraint, generation));
    LOCKSTEP_TRY_VOID(fit_lengths(context, generation));
    return Outcome(ReadRequest{std::move(generation), std::make_unique<MessageWriter>(context)});
  }

  HttpResponse refuse(const ApiError& error) const override { return messages_error(error); }
};

class CountTokens final : public Protocol {
 public:
  ApiResult<Outcome> read(const BodyField& body, const ReadContext& context) const override {
    LOCKSTEP_TRY_VOID(check_model(body, context));
    LOCKSTEP_TRY_VOID(refuse_unsupported(body, kUnsupported));
    LOCKSTEP_TRY(const ChatRequest request, read_messages_request(body, context));
    LOCKSTEP_TRY(const Prompt prompt, chat_prompt(request, context));
    return Outcome(HttpResponse{.body = to_line({{"input_tokens", prompt.ids.size()}})});
  }

  HttpResponse refuse(const ApiError& error) const override { return messages_error(error); }
};

}  // namespace

HttpResponse messages_error(const ApiError& error) {
  HttpResponse response = api_error(error);  // status and headers
  response.body = to_line(error_of(error));
  return response;
}

std::unique_ptr<Protocol> make_messages() { return std::make_unique<Messages>(); }
std::unique_ptr<Protocol> make_count_tokens() { return std::make_unique<CountTokens>(); }

}  // namespace lockstep::serve
