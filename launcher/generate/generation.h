// Generation options of a command: the model's own, overridden by the command's.
#pragma once

#include "launcher/generate/generate_command.h"
#include "lockstep/model.h"
#include "lockstep/request.h"

namespace lockstep::launcher {

/// Fails with `kInvalidArgument` for an option of the wrong form and for options that contradict each other.
Result<GenerationConfig> generation_of(const GenerateCommand& command, const Model& model);

/// The engine options that `config` needs, in addition to the command's.
EngineOptions engine_options(const GenerateCommand& command, const GenerationConfig& config);

/// The options that decide the command's tokens, one a line: the same on every rank. Fails as
/// `lockstep::statement_of`.
Result<std::string> statement_of(const GenerateCommand& command);

/// The error for options that exclude each other.
Error contradiction(const std::string& found, std::string_view expected);

}  // namespace lockstep::launcher
