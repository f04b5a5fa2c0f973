// How the rows of a command are answered: the model's own generation options with the command's on top.
#pragma once

#include "launcher/generate/generate_command.h"
#include "lockstep/model.h"
#include "lockstep/request.h"

namespace lockstep::launcher {

/// Fails with `kInvalidArgument` for an option of the wrong form and for options that contradict each other.
Result<GenerationConfig> generation_of(const GenerateCommand& command, const Model& model);

/// What `config` needs of an engine, on top of the command's options.
EngineOptions engine_options(const GenerateCommand& command, const GenerationConfig& config);

/// What decides the tokens of the command, one option a line: the same on every rank. Fails as
/// `lockstep::statement_of`.
Result<std::string> statement_of(const GenerateCommand& command);

/// Options that cannot be together.
Error contradiction(const std::string& found, std::string_view expected);

}  // namespace lockstep::launcher
