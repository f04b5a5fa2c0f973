// The manual page of the program, made of its commands and options.
#pragma once

#include <string>
#include <string_view>

#include "launcher/cli/program_description.h"

namespace lockstep::launcher {

/// Of section 1, as troff with the macros of man(7). `version` stands in its footer.
std::string man_page(const ProgramDescription& program, std::string_view version);

}  // namespace lockstep::launcher
