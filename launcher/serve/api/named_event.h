// Events with names in a stream, as the responses and messages protocols send them.
#pragma once

#include <string>

#include "launcher/serve/api/body_field.h"

namespace lockstep::serve {

/// "event: TYPE\ndata: LINE\n\n", where TYPE is the value's field "type".
std::string named_event(const Json& value);

}  // namespace lockstep::serve
