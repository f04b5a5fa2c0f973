// The protocol of /v1/responses.
#pragma once

#include <memory>

#include "launcher/serve/api/protocol.h"

namespace lockstep::serve {

std::unique_ptr<Protocol> make_responses();

}  // namespace lockstep::serve
