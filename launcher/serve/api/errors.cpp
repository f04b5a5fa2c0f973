#include "launcher/serve/api/errors.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/serve/api/body_field.h"

namespace lockstep::serve {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

/// What a kind of failure means to a client.
struct KindRow {
  ErrorKind kind;
  int status;
  std::string_view type, code;
  int retry_after_s = 0;  // 0: none
};
constexpr KindRow kKinds[] = {
    {ErrorKind::kInvalidArgument, 400, "invalid_request_error", ""},
    {ErrorKind::kUnsupported, 400, "invalid_request_error", "unsupported"},
    {ErrorKind::kNotFound, 404, "not_found_error", "not_found"},
    {ErrorKind::kResourceExhausted, 503, "server_error", "overloaded", 1},
    {ErrorKind::kUnavailable, 503, "server_error", "engine_unavailable", 5},
    {ErrorKind::kFailedPrecondition, 503, "server_error", "engine_unavailable", 5},
    {ErrorKind::kPeerLost, 503, "server_error", "engine_lost", 5},
    {ErrorKind::kCancelled, 503, "server_error", "cancelled", 5},
    {ErrorKind::kDeadlineExceeded, 504, "server_error", "deadline_exceeded"},
};

}  // namespace

ApiError invalid_field(std::string param, std::string message) {
  return {.param = std::move(param), .message = std::move(message)};
}

ApiError context_exceeded(int64_t prompt, int64_t asked, int64_t capacity, std::string param) {
  return {.code = "context_length_exceeded",
          .param = std::move(param),
          .message = fmt::format("This model's maximum context length is {} tokens; found {} tokens in the prompt and "
                                 "{} asked for the answer, {} together; shorten the prompt or the answer",
                                 capacity, prompt, asked, prompt + asked)};
}

ApiError prompt_exceeded(int64_t capacity, std::string param) {
  return {.code = "context_length_exceeded",
          .param = std::move(param),
          .message = fmt::format("This model's maximum context length is {0} tokens; found more than {0} tokens in the "
                                 "prompt; shorten the prompt",
                                 capacity)};
}

ApiError from_engine(const Error& error) {
  for (const KindRow& row : kKinds) {
    if (row.kind != error.kind) continue;
    ApiError made{
        .status = row.status, .type = std::string(row.type), .code = std::string(row.code), .message = error.message};
    if (row.retry_after_s > 0) made.retry_after_s = row.retry_after_s;
    return made;
  }
  return {.status = 500, .type = "server_error", .code = "internal_error", .message = error.message};
}

std::string error_json(const ApiError& error) {
  return to_line({{"error",
                   {{"message", error.message},
                    {"type", error.type},
                    {"param", text_or_null(error.param)},
                    {"code", text_or_null(error.code)}}}});
}

HttpResponse api_error(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_json(error)};
  if (error.retry_after_s) response.headers.emplace_back("Retry-After", std::to_string(*error.retry_after_s));
  return response;
}

HttpResponse api_error(int status, std::string_view type, std::string_view code, std::string_view param,
                       std::string_view message) {
  return api_error({.status = status,
                    .type = std::string(type),
                    .code = std::string(code),
                    .param = std::string(param),
                    .message = std::string(message)});
}

}  // namespace lockstep::serve
