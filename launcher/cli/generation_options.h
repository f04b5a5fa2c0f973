// The options of `generate` that are Hugging Face's GenerationConfig fields: flags from the rows.
#pragma once

#include "launcher/cli/command_line.h"

namespace CLI {
class App;
}

namespace lockstep::launcher {

/// Adds the options to `app`; what is given lands in `command.generation` under Hugging Face's name, as JSON text.
/// `command` outlives the parse.
void add_generation_options(CLI::App& app, GenerateCommand& command);

}  // namespace lockstep::launcher
