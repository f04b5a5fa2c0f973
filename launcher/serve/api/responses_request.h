// Reads the body of /v1/responses.
#pragma once

#include "launcher/serve/api/body_field.h"
#include "launcher/serve/api/chat_request.h"

namespace lockstep::serve {

/// `instructions` and `input`: a text, or items of the types message, function_call, function_call_output and
/// reasoning. Tools of other types than "function" are skipped.
ApiResult<ChatRequest> read_response_request(const BodyField& body);

/// The constraint of `text.format`; empty: none.
ApiResult<std::string> read_text_format(const BodyField& body);

}  // namespace lockstep::serve
