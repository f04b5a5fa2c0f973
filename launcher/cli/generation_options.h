// Flags of `generate` for Hugging Face's GenerationConfig fields, made from option rows.
#pragma once

#include "launcher/cli/command_line.h"

namespace CLI {
class App;
}

namespace lockstep::launcher {

/// Adds the options to `app`. Given values are stored in `command.generation` under Hugging Face's names, as JSON text.
/// `command` outlives the parse.
void add_generation_options(CLI::App& app, GenerateCommand& command);

}  // namespace lockstep::launcher
