// The protocol of /v1/chat/completions.
#pragma once

#include "launcher/serve/api/protocol.h"

namespace lockstep::serve {

std::unique_ptr<Protocol> make_chat();

}  // namespace lockstep::serve
