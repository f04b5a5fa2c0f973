// The protocols of /v1/messages and /v1/messages/count_tokens.
#pragma once

#include <memory>

#include "launcher/serve/api/protocol.h"

namespace lockstep::serve {

std::unique_ptr<Protocol> make_messages();

/// {"messages", "system", "tools"} ─► {"input_tokens"}
std::unique_ptr<Protocol> make_count_tokens();

/// An error in the form of this protocol: {"type": "error", "error": {"type": "…", "message": "…"}}.
HttpResponse messages_error(const ApiError& error);

}  // namespace lockstep::serve
