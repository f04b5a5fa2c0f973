// This machine's name, for messages.
#pragma once

#include <string>

namespace lockstep::group {

/// "unknown" if the system has no name.
std::string host_name();

}  // namespace lockstep::group
