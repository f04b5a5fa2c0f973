// The manual page, made from the program's commands and options.
#pragma once

#include <string>
#include <string_view>

#include "launcher/cli/program_description.h"

namespace lockstep::launcher {

/// The page for section 1, as troff with the macros of man(7). `version` is in its footer.
std::string man_page(const ProgramDescription& program, std::string_view version);

}  // namespace lockstep::launcher
