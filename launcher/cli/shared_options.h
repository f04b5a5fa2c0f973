// Options shared by several commands.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/cli/command_line.h"

namespace CLI {
class App;
}

namespace lockstep::launcher {

/// Limit of the tokens in a chunk or a slot: keeps every product inside 64 bits.
inline constexpr int64_t kMostTokens = int64_t{1} << 24;

/// Options added from now on are listed under `title` in --help.
void begin_section(CLI::App& app, const std::string& title);

/// The format in "q4", "q8:32". Fails CLI11's validation for other texts.
MatrixFormat copied_weights(const std::string& text);

/// Adds the options of `model`, `engine` and `run`, which outlive the parse.
void add_model_options(CLI::App& app, ModelArguments& model, EngineOptions& engine);
void add_run_options(CLI::App& app, RunOptions& run, EngineOptions& engine);
/// For commands that serve requests as they arrive: sets its default, too.
void add_chunk_budget(CLI::App& app, EngineOptions& engine);
void add_memory_budget(CLI::App& app, EngineOptions& engine);
/// Adds the last sections of commands that run an engine: observation, run, backends.
void add_engine_options(CLI::App& app, RunOptions& run, EngineOptions& engine);

/// Replaces the descriptions of sizes by those of an engine whose requests come later; after `add_model_options`.
void describe_open_sizes(CLI::App& app);

}  // namespace lockstep::launcher
