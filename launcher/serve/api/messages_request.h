// Reads the body of /v1/messages.
#pragma once

#include "launcher/serve/api/body_field.h"
#include "launcher/serve/api/chat_request.h"

namespace lockstep::serve {

/// `system`, `messages`, `tools`, `tool_choice` and `thinking`. Content is a text or blocks of the types text,
/// tool_use, tool_result and thinking. User messages in a row become one, as in the protocol; their text joins a tool's
/// result where the chat template demands it. An assistant's text at the end is continued.
ApiResult<ChatRequest> read_messages_request(const BodyField& body, const ReadContext& context);

/// The constraint of `output_config.format` or `output_format`; empty: none.
ApiResult<std::string> read_output_format(const BodyField& body);

}  // namespace lockstep::serve
