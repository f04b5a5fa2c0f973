#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "launcher/cli/completion.h"

namespace lockstep::launcher {
namespace {

/// Puts text in single quotes.
std::string fish_quoted(std::string_view text) {
  std::string made = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') made += '\\';
    made += letter;
  }
  return made + "'";
}

std::string fish_value_of(const OptionDescription& option) {
  switch (option.kind) {
    case ValueKind::kNone: return "";
    case ValueKind::kChoice: return " -x -a " + fish_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
    case ValueKind::kFile: return " -r -F";
    case ValueKind::kFolder: return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kOther: return " -x";
  }
  return "";
}

/// One line per option, valid where `condition` holds.
std::string fish_lines(std::string_view program, std::string_view condition,
                       const std::vector<OptionDescription>& options) {
  std::string text;
  for (const OptionDescription& option : options) {
    text += fmt::format("complete -c {} -n {}", program, fish_quoted(condition));
    for (const std::string& name : option.names) {
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    text += fmt::format("{} -d {}\n", fish_value_of(option), fish_quoted(option.help));
  }
  return text;
}

}  // namespace

std::string fish_completion(const ProgramDescription& program) {
  constexpr std::string_view kNoCommand = "__fish_use_subcommand";
  std::string text =
      fmt::format("complete -c {} -f\n", program.name) + fish_lines(program.name, kNoCommand, program.options);
  for (const CommandDescription& command : program.commands) {
    text += fmt::format("complete -c {} -n {} -a {} -d {}\n", program.name, kNoCommand, command.name,
                        fish_quoted(command.help));
    text += fish_lines(program.name, "__fish_seen_subcommand_from " + command.name, command.options);
  }
  return text;
}

}  // namespace lockstep::launcher
