// The page at /: a chat, and the ranks at work. One text without outside resources.
#pragma once

#include <string_view>

namespace lockstep::serve {

/// HTML. Lives as long as the program.
std::string_view page();

}  // namespace lockstep::serve
