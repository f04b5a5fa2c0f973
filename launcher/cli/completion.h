// Shell completion of commands, options and their values.
#pragma once

#include <string>

#include "launcher/cli/program_description.h"

namespace lockstep::launcher {

// The text of a file that the shell sources, or loads from its installation folder.
std::string bash_completion(const ProgramDescription& program);
std::string zsh_completion(const ProgramDescription& program);
std::string fish_completion(const ProgramDescription& program);

}  // namespace lockstep::launcher
