// The build id of the program, for comparison between ranks.
#pragma once

#include <string>

namespace lockstep::group {

/// The linker's build id of this program in hexadecimal digits; "unknown" when it was linked without one.
std::string build_id();

}  // namespace lockstep::group
