// The command line as values. `parse_command_line` has every option, its default and its bounds; later code does not
// read argv.
#pragma once

#include <span>
#include <string>
#include <variant>

#include "launcher/batch/supervise.h"
#include "launcher/commands/quantise.h"
#include "launcher/commands/score.h"
#include "launcher/commands/tokenize.h"
#include "launcher/commands/verify.h"
#include "launcher/generate/generate_command.h"
#include "launcher/inspect/compile.h"
#include "launcher/inspect/explain.h"
#include "launcher/measure/bench/bench.h"
#include "launcher/measure/doctor/doctor.h"
#include "launcher/measure/plan/plan.h"
#include "launcher/measure/sweep/sweep.h"
#include "launcher/serve/control_command.h"
#include "launcher/serve/engine_command.h"
#include "launcher/serve/serve_command.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Help or version text was printed; the program ends with code 0.
struct PrintedText {
  std::string text;
};

using Command = std::variant<GenerateCommand, ScoreCommand, EngineCommand, ServeCommand, ControlCommand,
                             TokenizeCommand, QuantiseCommand, VerifyCommand, ExplainCommand, PlanCommand, BenchCommand,
                             SweepCommand, SuperviseCommand, DoctorCommand, CompileCommand, ExportCommand, PrintedText>;

/// Fails with `kInvalidArgument` whose message names the option and what it expects.
Result<Command> parse_command_line(int argc, const char* const* argv);

/// Parses words that must be a `generate` command, the program's name first. Fails as `parse_command_line`.
Result<GenerateCommand> parse_generate_command(std::span<const std::string> words);

}  // namespace lockstep::launcher
