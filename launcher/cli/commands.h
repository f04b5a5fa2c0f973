// The options of each command, one function a command: each adds a subcommand whose parse fills the struct.
#pragma once

#include <cstdint>

#include "launcher/cli/command_line.h"

namespace CLI {
class App;
}

namespace lockstep::launcher {

// The structs outlive the parse.
void add_generate(CLI::App& parent, GenerateCommand& command);
void add_tokenize(CLI::App& parent, TokenizeCommand& command);
void add_explain(CLI::App& parent, ExplainCommand& command);
/// `probe_mib` is 0 unless it was given.
void add_bench(CLI::App& parent, BenchCommand& command, int64_t& probe_mib);
void add_doctor(CLI::App& parent, DoctorCommand& command, int64_t& probe_mib);

}  // namespace lockstep::launcher
