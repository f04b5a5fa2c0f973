// The protocol of /v1/completions.
#pragma once

#include "launcher/serve/api/protocol.h"

namespace lockstep::serve {

std::unique_ptr<Protocol> make_completions();

}  // namespace lockstep::serve
