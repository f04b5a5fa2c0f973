// Refusals in the form of OpenAI's API:
//
//   {"error": {"message": "…", "type": "invalid_request_error", "param": "top_k", "code": null}}
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/serve/http/exchange.h"
#include "runtime/core/result.h"

namespace lockstep::serve {

/// Why a request gets no answer. A value.
struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string code = {};   // "model_not_found"; empty: null
  std::string param = {};  // the field: "messages[0].role"; empty: null
  std::string message;
  std::optional<int> retry_after_s = std::nullopt;

  friend bool operator==(const ApiError&, const ApiError&) = default;
};

template <typename T>
using ApiResult = BOOST_OUTCOME_V2_NAMESPACE::basic_result<T, ApiError, lockstep::detail::CheckedAccess>;

/// Status 400: the value of `param` does not fit.
ApiError invalid_field(std::string param, std::string message);

/// Status 400, code "context_length_exceeded". `asked`: tokens of the answer.
ApiError context_exceeded(int64_t prompt, int64_t asked, int64_t capacity, std::string param);

/// The same for a prompt that was not read further than the capacity.
ApiError prompt_exceeded(int64_t capacity, std::string param);

/// An error of the engine: its kind determines the status (503 and Retry-After while there is no engine).
ApiError from_engine(const Error& error);

/// The JSON text of an error; one line.
std::string error_json(const ApiError& error);

HttpResponse api_error(const ApiError& error);
HttpResponse api_error(int status, std::string_view type, std::string_view code, std::string_view param,
                       std::string_view message);

}  // namespace lockstep::serve
