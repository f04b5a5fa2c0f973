// This machine's name, for messages.
#pragma once

#include <string>

namespace lockstep::group {

/// "unknown" where the system does not tell.
std::string host_name();

}  // namespace lockstep::group
