#include "launcher/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "engine/drivers.h"
#include "launcher/cli/backend_options.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/suggestion.h"
#include "launcher/cli/wanted_text.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kVersion = "lockstep " LOCKSTEP_VERSION;

/// CLI11 reads a bracketed word as a list and splits it at its commas ("[INST] one, two [/INST]"), and an empty one as
/// the name of a group of options, where it then reads the next word for ever. A guard character in front prevents both
/// until `take_guards_off` removes it.
constexpr char kGuard = '\x01';

/// The words of argv without the program's name, in CLI11's order: last first.
std::vector<std::string> guarded_words(int argc, const char* const* argv) {
  std::vector<std::string> words(std::make_reverse_iterator(argv + argc), std::make_reverse_iterator(argv + 1));
  for (std::string& word : words) {
    const bool is_list = word.starts_with('[') && word.ends_with(']');
    if (is_list || word.empty() || word.starts_with(kGuard)) word.insert(word.begin(), kGuard);
  }
  return words;
}

/// A message about guarded words as people wrote them; an empty word is in quotes.
std::string without_guards(std::string_view message) {
  std::string text;
  for (size_t i = 0; i < message.size(); ++i) {
    if (message[i] != kGuard) {
      text += message[i];
    } else if (i + 1 == message.size() || message[i + 1] == ' ') {
      text += "\"\"";
    }
  }
  return text;
}

void take_guards_off(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    option->transform([](std::string word) { return word.starts_with(kGuard) ? word.substr(1) : word; }, "");
  }
  for (CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; })) take_guards_off(*inner);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

/// "did you mean NAME? ", or nothing.
std::string guess(std::string_view word, std::span<const std::string> names, std::string_view prefix = "") {
  const std::optional<std::string> name = nearest_name(word, names);
  return name ? fmt::format("did you mean {}{}? ", prefix, *name) : "";
}

Error unknown_command(const CLI::App& app, std::string_view word) {
  const std::vector<std::string> names = command_names(app);
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] cannot read the command line: found the command \"{}\", expected one of {}; {}see "
                      "lockstep --help",
                      word, fmt::join(names, ", "), guess(word, names))};
}

/// The long names of a command's options, those of its groups included.
void add_option_names(const CLI::App& command, std::vector<std::string>& names) {
  for (const CLI::Option* option : command.get_options())
    std::ranges::copy(option->get_lnames(), std::back_inserter(names));
  for (const CLI::App* group : command.get_subcommands([](const CLI::App*) { return true; })) {
    add_option_names(*group, names);
  }
}

/// A suggestion for the first option of `words` that `command` does not have.
std::string guess_option(const CLI::App& command, std::span<const char* const> words) {
  std::vector<std::string> names;
  add_option_names(command, names);
  for (const std::string_view word : words) {
    if (!word.starts_with("--")) continue;
    const std::string_view name = word.substr(2, word.find('=') - 2);
    if (std::ranges::find(names, name) == names.end()) return guess(name, names, "--");
  }
  return "";
}

/// The program's version, its backends and its build.
std::string version_text() {
  const auto [present, missing] = built_backends();
  std::string text = fmt::format("{}\nbackends  {}", kVersion, fmt::join(present, ", "));
  if (!missing.empty()) text += fmt::format("; without {}", fmt::join(missing, ", "));
  return text + fmt::format("\nbuild     {}\n", LOCKSTEP_BUILD_OPTIONS);
}

/// Options of a batch job that its replicas do not have, or get from it; each has a value.
const std::string kOfWholeJobs[] = {"--replicas", "--tp",          "--tp-degree", "--launch",
                                    "--journal",  "--exit-record", "--output",    "--progress"};

/// Every command with its parsed options.
struct Commands {
  GenerateCommand generate;
  ScoreCommand score;
  EngineCommand engine;
  ServeCommand serve;
  std::vector<std::string> serve_options;  // of the server's own process
  ControlCommand control;
  TokenizeCommand tokenize;
  QuantiseCommand quantise;
  VerifyCommand verify;
  ExplainCommand explain;
  PlanCommand plan;
  BenchCommand bench;
  DoctorCommand doctor;
  CompileCommand compile;
  ExportCommand exporting;
  SuperviseCommand supervise;
  SweepCommand sweep;
  TextCommands texts;
  std::vector<std::string> words;  // after the command's name
  int64_t probe_mib = 0;           // of plan, bench or doctor
  int64_t sweep_probe_mib = 0;     // of sweep, which forwards it
};

void add_all(CLI::App& app, Commands& commands) {
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  add_generate(app, commands.generate);
  add_score(app, commands.score);
  add_engine(app, commands.engine);
  add_serve(app, commands.serve, commands.serve_options);
  add_control(app, commands.control);
  add_tokenize(app, commands.tokenize);
  add_quantise(app, commands.quantise);
  add_verify(app, commands.verify);
  add_explain(app, commands.explain);
  add_plan(app, commands.plan, commands.probe_mib);
  add_bench(app, commands.bench, commands.probe_mib);
  add_doctor(app, commands.doctor, commands.probe_mib);
  add_sweep(app, commands.sweep, commands.sweep_probe_mib);
  add_supervise(app, commands.supervise);
  add_compile(app, commands.compile);
  add_export(app, commands.exporting);
  add_texts(app, commands.texts);
  take_guards_off(app);
}

/// Removes the options of backends that were not chosen.
void keep_own_options(EngineOptions& engine) {
  engine.backend_options = own_options(engine.backend, engine.backend_options);
}

/// The command that argv names, parsed.
Command chosen_command(const CLI::App& app, Commands commands) {
  keep_own_options(commands.generate.engine);
  keep_own_options(commands.score.engine);
  keep_own_options(commands.engine.engine);
  keep_own_options(commands.serve.engine.engine);
  keep_own_options(commands.bench.engine);
  keep_own_options(commands.compile.engine);
  keep_own_options(commands.exporting.compile.engine);
  if (const auto text = text_of(commands.texts, app, kVersion)) return PrintedText{*text};
  if (app.got_subcommand("generate")) {
    commands.generate.replica_words = words_without(commands.words, kOfWholeJobs);
    commands.generate.takes_devices = takes_devices(commands.generate.engine.backend);
    return std::move(commands.generate);
  }
  if (app.got_subcommand("score")) return std::move(commands.score);
  if (app.got_subcommand("engine")) return std::move(commands.engine);
  if (app.got_subcommand("serve")) {
    commands.serve.engine_words = options_among(*app.get_subcommand("serve"), commands.words, commands.serve_options);
    commands.serve.takes_devices = takes_devices(commands.serve.engine.engine.backend);
    return std::move(commands.serve);
  }
  if (app.got_subcommand("ctl")) return std::move(commands.control);
  if (app.got_subcommand("tokenize")) return std::move(commands.tokenize);
  if (app.got_subcommand("quantise")) return std::move(commands.quantise);
  if (app.got_subcommand("verify")) return std::move(commands.verify);
  if (app.got_subcommand("explain")) return std::move(commands.explain);
  if (app.got_subcommand("doctor")) {
    if (commands.probe_mib > 0) commands.doctor.probe_bytes = Bytes(commands.probe_mib << 20);
    return std::move(commands.doctor);
  }
  if (app.got_subcommand("plan")) {
    if (commands.probe_mib > 0) commands.plan.machine.probe_bytes = Bytes(commands.probe_mib << 20);
    return std::move(commands.plan);
  }
  if (app.got_subcommand("sweep")) {
    commands.sweep.shared_options = shared_options(*app.get_subcommand("sweep"), commands.words);
    commands.sweep.words = std::move(commands.words);
    return std::move(commands.sweep);
  }
  if (app.got_subcommand("compile")) return std::move(commands.compile);
  if (app.got_subcommand("export")) return std::move(commands.exporting);
  if (app.got_subcommand("supervise")) return std::move(commands.supervise);
  commands.bench.shape.batch = commands.bench.engine.slots.value_or(1);
  if (commands.probe_mib > 0) commands.bench.probe_bytes = Bytes(commands.probe_mib << 20);
  return std::move(commands.bench);
}

/// Removes the words after the first "--" from a command line and returns them: the supervised command's own options.
Result<std::vector<std::string>> cut_supervised_words(int& argc, const char* const* argv) {
  for (int i = 2; i < argc; ++i) {
    if (argv[i] != std::string_view("--")) continue;
    std::vector<std::string> words(argv + i + 1, argv + argc);
    argc = i;
    return words;
  }
  if (argc > 2 && (argv[2] == std::string_view("--help") || argv[2] == std::string_view("-h"))) {
    return std::vector<std::string>();
  }
  return Error{ErrorKind::kInvalidArgument,
               "[launcher] supervise: found no command, expected it behind --, as in lockstep supervise -- mpirun -n 4 "
               "lockstep generate …"};
}

}  // namespace

Result<Command> parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Runs one language model across many devices: [mpirun -n P] lockstep COMMAND --model DIR …", "lockstep");
  Commands commands;
  add_all(app, commands);
  const std::vector<std::string> names = command_names(app);
  if (argc > 1 && argv[1][0] != '-' && std::ranges::find(names, argv[1]) == names.end()) {
    return unknown_command(app, argv[1]);
  }
  if (argc > 1 && argv[1] == std::string_view("supervise")) {
    LOCKSTEP_TRY(commands.supervise.words, cut_supervised_words(argc, argv));
  }
  try {
    app.parse(guarded_words(argc, argv));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return Command{PrintedText{chosen.empty() ? app.help() : chosen.front()->help("lockstep")}};
  } catch (const CLI::CallForAllHelp&) {
    return Command{PrintedText{app.help("", CLI::AppFormatMode::All)}};
  } catch (const WantedText& wanted) {
    return Command{PrintedText{wanted.text()}};
  } catch (const CLI::CallForVersion&) {
    return Command{PrintedText{version_text()}};
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::span words(argv, static_cast<size_t>(argc));
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("[launcher] cannot read the command line: {}; {}see lockstep {}--help",
                    without_guards(error.what()), chosen.empty() ? "" : guess_option(*chosen.front(), words.subspan(2)),
                    chosen.empty() ? "" : chosen.front()->get_name() + " ")};
  }
  if (argc > 2) commands.words.assign(argv + 2, argv + argc);
  return chosen_command(app, std::move(commands));
}

Result<GenerateCommand> parse_generate_command(std::span<const std::string> words) {
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  LOCKSTEP_TRY(const Command command, parse_command_line(static_cast<int>(argv.size()), argv.data()));
  if (const auto* generate = std::get_if<GenerateCommand>(&command)) return *generate;
  return Error{ErrorKind::kInvalidArgument,
               "[launcher] supervise: found a command that prints its help, expected one that runs"};
}

}  // namespace lockstep::launcher
