// The command `lockstep generate`.
#pragma once

#include "launcher/generate/generate_command.h"

namespace lockstep::launcher {

/// Generates continuations of prompts with a model divided between the ranks. @collective @blocking
Result<void> generate(const GenerateCommand& command);

}  // namespace lockstep::launcher
