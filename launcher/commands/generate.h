// `lockstep generate`.
#pragma once

#include "launcher/generate/generate_command.h"

namespace lockstep::launcher {

/// Continues prompts with a model cut over the ranks. @collective @blocking
Result<void> generate(const GenerateCommand& command);

}  // namespace lockstep::launcher
