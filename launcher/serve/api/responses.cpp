#include "launcher/serve/api/responses.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/serve/api/chat_request.h"
#include "launcher/serve/api/request_fields.h"
#include "launcher/serve/api/responses_output.h"
#include "launcher/serve/api/responses_request.h"

namespace lockstep::serve {
namespace {

// Not in the list, since they ask nothing of the engine or mean the same here: store, user, metadata, include,
// service_tier, prompt_cache_key, safety_identifier.
constexpr UnsupportedField kUnsupported[] = {
    {"previous_response_id"},
    {"background"},
    {"conversation"},
    {"prompt"},
    {"max_tool_calls"},
    {"top_logprobs", "0"},
    {"moderation"},
    {"context_management", "[]"},
    {"truncation", "\"disabled\""},
};

/// Fields of the body that the answer repeats.
Json repeated_fields(const BodyField& body) {
  Json fields = {{"instructions", nullptr},
                 {"max_output_tokens", nullptr},
                 {"metadata", Json::object()},
                 {"parallel_tool_calls", true},
                 {"previous_response_id", nullptr},
                 {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                 {"temperature", 1.0},
                 {"text", {{"format", {{"type", "text"}}}}},
                 {"tool_choice", "auto"},
                 {"tools", Json::array()},
                 {"top_p", 1.0},
                 {"truncation", "disabled"},
                 {"user", nullptr}};
  for (auto& [name, value] : fields.items()) {
    if (const auto field = body.find(name)) value = field->value();
  }
  fields.update(
      {{"frequency_penalty", 0.0}, {"presence_penalty", 0.0}, {"top_logprobs", 0}, {"max_tool_calls", nullptr}});
  fields.update({{"service_tier", "default"}, {"safety_identifier", nullptr}, {"prompt_cache_key", nullptr}});
  fields["background"] = false;
  fields["store"] = false;
  return fields;
}

/// {"input_tokens": …, "output_tokens": …, …}
Json response_usage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.new_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.new_tokens}};
}

class ResponseWriter final : public ProtocolWriter {
 public:
  ResponseWriter(const ReadContext& context, Json repeated)
      : id_("resp_" + context.request_id),
        created_(context.created),
        model_(context.model),
        repeated_(std::move(repeated)),
        output_(context.request_id) {}

  std::string begin(const Usage&) override {
    const Json fields = {{"response", response("in_progress")}};
    std::string bytes = output_.event("response.created", fields);
    return bytes + output_.event("response.in_progress", fields);
  }

  std::string begin_choice(size_t, const Prompt&, const std::vector<EngineScore>&) override { return {}; }

  std::string part(const ChoicePart& part) override {
    std::string bytes;
    for (const OutputPiece& piece : part.pieces) bytes += output_.put(piece);
    return bytes;
  }

  std::string end_choice(const ChoiceEnd& end) override {
    note_reason(end.reason);
    return output_.finish(status_);
  }

  std::string end(const Usage& usage) override {
    return output_.event("response." + status_, {{"response", ended_response(usage)}});
  }

  std::string failure(const ApiError& error) override {
    Json failed = response("failed");
    failed["error"] = {{"code", "server_error"}, {"message", error.message}};
    return output_.event("response.failed", {{"response", failed}});
  }

  std::string whole(const Generation&, const std::vector<Choice>& choices, const std::vector<std::vector<EngineScore>>&,
                    const Usage& usage) override {
    const Choice& choice = choices.front();
    using Kind = OutputPiece::Kind;
    note_reason(choice.reason);
    if (!choice.reasoning.empty()) output_.put({Kind::kReasoning, choice.reasoning});
    if (!choice.content.empty()) output_.put({Kind::kContent, choice.content});
    for (const ReadToolCall& call : choice.tools) {
      output_.put({Kind::kToolBegin, call.name});
      output_.put({Kind::kToolArguments, call.arguments});
    }
    output_.finish(status_);
    return to_line(ended_response(usage));
  }

 private:
  void note_reason(FinishReason reason) {
    const bool whole = reason == FinishReason::kStop || reason == FinishReason::kToolCalls;
    status_ = whole ? "completed" : "incomplete";
    if (reason == FinishReason::kLength) incomplete_ = {{"reason", "max_output_tokens"}};
  }

  Json response(std::string_view status) const {
    Json fields = {{"id", id_},
                   {"object", "response"},
                   {"created_at", created_},
                   {"status", status},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"completed_at", nullptr},
                   {"model", model_},
                   {"output", output_.items()},
                   {"usage", nullptr}};
    fields.update(repeated_);
    return fields;
  }

  Json ended_response(const Usage& usage) const {
    Json fields = response(status_);
    fields["incomplete_details"] = incomplete_;
    fields["usage"] = response_usage(usage);
    if (status_ == "completed") {
      fields["completed_at"] = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    }
    return fields;
  }

  std::string id_;
  int64_t created_;
  std::string model_;
  Json repeated_;
  ResponseOutput output_;
  std::string status_ = "completed";
  Json incomplete_;
};

class Responses final : public Protocol {
 public:
  ApiResult<Outcome> read(const BodyField& body, const ReadContext& context) const override {
    LOCKSTEP_TRY_VOID(check_model(body, context));
    LOCKSTEP_TRY_VOID(refuse_unsupported(body, kUnsupported));
    Generation generation;
    LOCKSTEP_TRY(generation.stream, body.flag_or("stream", false));
    LOCKSTEP_TRY_VOID(read_sampling(body, context, generation));
    LOCKSTEP_TRY(generation.max_new_tokens, read_length(body, "max_output_tokens", 1));
    generation.length_field = "max_output_tokens";
    LOCKSTEP_TRY(const std::string constraint, read_text_format(body));
    LOCKSTEP_TRY(const ChatRequest request, read_response_request(body));
    LOCKSTEP_TRY_VOID(prepare_chat(request, context, constraint, generation));
    LOCKSTEP_TRY_VOID(fit_lengths(context, generation));
    return Outcome(
        ReadRequest{std::move(generation), std::make_unique<ResponseWriter>(context, repeated_fields(body))});
  }

  HttpResponse refuse(const ApiError& error) const override { return api_error(error); }
};

}  // namespace

std::unique_ptr<Protocol> make_responses() { return std::make_unique<Responses>(); }

}  // namespace lockstep::serve
