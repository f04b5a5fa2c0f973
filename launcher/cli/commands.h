// The options of each command. One function per command adds a subcommand that fills a struct.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/command_line.h"

namespace CLI {
class App;
}

namespace lockstep::launcher {

// The structs outlive the parse.
void add_generate(CLI::App& parent, GenerateCommand& command);
void add_score(CLI::App& parent, ScoreCommand& command);
void add_engine(CLI::App& parent, EngineCommand& command);
/// `own_options` gets the names of the options that are not the engine's; the caller fills in the engine's words.
void add_serve(CLI::App& parent, ServeCommand& command, std::vector<std::string>& own_options);
void add_control(CLI::App& parent, ControlCommand& command);
void add_tokenize(CLI::App& parent, TokenizeCommand& command);
void add_quantise(CLI::App& parent, QuantiseCommand& command);
void add_verify(CLI::App& parent, VerifyCommand& command);
void add_explain(CLI::App& parent, ExplainCommand& command);
/// The caller fills in the words after "--".
void add_supervise(CLI::App& parent, SuperviseCommand& command);
/// `probe_mib` is 0 unless it was given.
void add_plan(CLI::App& parent, PlanCommand& command, int64_t& probe_mib);
/// `probe_mib` is 0 unless it was given.
void add_bench(CLI::App& parent, BenchCommand& command, int64_t& probe_mib);
void add_doctor(CLI::App& parent, DoctorCommand& command, int64_t& probe_mib);
/// `probe_mib` is 0 unless it was given; the caller fills in the words of the command line.
void add_sweep(CLI::App& parent, SweepCommand& command, int64_t& probe_mib);

void add_compile(CLI::App& parent, CompileCommand& command);
void add_export(CLI::App& parent, ExportCommand& command);

/// Commands that print the program's own tables.
struct TextCommands {
  const CLI::App* completion = nullptr;
  const CLI::App* man = nullptr;
  std::string shell;  // of completion
};
void add_texts(CLI::App& parent, TextCommands& command);
/// Empty if the user asked `program` for neither.
std::optional<std::string> text_of(const TextCommands& command, const CLI::App& program, std::string_view version);

/// Adds the options that bench shares with other commands.
void add_bench_options(CLI::App& app, BenchCommand& command, int64_t& probe_mib);

/// Adds the options of `bench --suite`, which are rejected without --suite.
void add_suite_options(CLI::App& app, SuiteOptions& options);
/// Once parsed: fails CLI11's validation where --suite stands beside an option that the suite does not take.
void check_suite_options(const CLI::App& app);

/// The options of bench with their values, by name, among the words after "sweep", which `app` parsed.
std::vector<std::string> shared_options(const CLI::App& app, const std::vector<std::string>& words);

/// The options with their values, by name, among `words`, which `app` parsed, without those in `left_out`.
std::vector<std::string> options_among(const CLI::App& app, const std::vector<std::string>& words,
                                       std::span<const std::string> left_out);

/// `words` without the options in `left_out`, which have a value each.
std::vector<std::string> words_without(const std::vector<std::string>& words, std::span<const std::string> left_out);

}  // namespace lockstep::launcher
