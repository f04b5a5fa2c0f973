// The program's commands and options as a value, read from CLI11's tables.
//
//   CLI::App ─► describe ─► ProgramDescription ─► completion files, the manual page
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::launcher {

/// The kind of value that follows an option.
enum class ValueKind {
  kNone,  // a flag
  kChoice,
  kFile,
  kFolder,
  kOther,
};

struct OptionDescription {
  std::vector<std::string> names;  // with dashes: "-h", "--help"; empty: positional
  std::string section;
  std::string help;
  ValueKind kind = ValueKind::kOther;
  std::string value_name;            // "DIR"; empty for flags
  std::vector<std::string> choices;  // of kChoice
  std::string bounds;                // "INT in [1 - 4096]"; may be empty
  std::string default_value;         // may be empty
  bool is_required = false;
  bool is_repeatable = false;
};

struct CommandDescription {
  std::string name;
  std::string help;
  std::string footer;
  std::vector<OptionDescription> options;
};

struct ProgramDescription {
  std::string name;
  std::string help;
  std::vector<OptionDescription> options;  // before the command
  std::vector<CommandDescription> commands;
};

/// Describes an app whose subcommands are commands. Omits hidden options, which have no section.
ProgramDescription describe(const CLI::App& app);

}  // namespace lockstep::launcher
