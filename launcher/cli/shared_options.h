// Options that several commands have.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/cli/command_line.h"

namespace CLI {
class App;
}

namespace lockstep::launcher {

/// Of a chunk or a slot: keeps every product inside 64 bits.
inline constexpr int64_t kMostTokens = int64_t{1} << 24;

/// What is added from now on stands below `title` in --help.
void begin_section(CLI::App& app, const std::string& title);

/// Adds what fills `options`, which outlives the parse.
void add_model_options(CLI::App& app, ModelArguments& model, EngineOptions& engine);
void add_run_options(CLI::App& app, RunOptions& run, EngineOptions& engine);
void add_memory_budget(CLI::App& app, EngineOptions& engine);
void add_observe_options(CLI::App& app, ObserveOptions& options);

}  // namespace lockstep::launcher
