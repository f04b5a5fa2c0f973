#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "launcher/cli/completion.h"

namespace lockstep::launcher {
namespace {

/// Escapes text for single quotes inside the brackets of a specification.
std::string zsh_escaped(std::string_view text) {
  std::string made;
  for (const char letter : text) {
    if (letter == '\'') {
      made += "'\\''";
    } else {
      if (std::string_view("\\[]:").find(letter) != std::string_view::npos) made += '\\';
      made += letter;
    }
  }
  return made;
}

std::string zsh_action_of(const OptionDescription& option) {
  switch (option.kind) {
    case ValueKind::kNone: return "";
    case ValueKind::kChoice: return fmt::format("({})", fmt::join(option.choices, " "));
    case ValueKind::kFile: return "_files";
    case ValueKind::kFolder: return "_files -/";
    case ValueKind::kOther: return "";
  }
  return "";
}

/// `'--launch[help]:HOW:(mpi threads)'`
std::string zsh_specification(const OptionDescription& option, std::string_view name) {
  const std::string value = option.kind == ValueKind::kNone
                                ? ""
                                : fmt::format(":{}:{}", zsh_escaped(option.value_name), zsh_action_of(option));
  if (name.empty()) return fmt::format("'{}'", value);
  return fmt::format("'{}{}[{}]{}'", option.is_repeatable ? "*" : "", name, zsh_escaped(option.help), value);
}

std::string zsh_arguments(const std::vector<OptionDescription>& options) {
  std::string text = "_arguments";
  for (const OptionDescription& option : options) {
    if (option.names.empty()) text += " \\\n        " + zsh_specification(option, "");
    for (const std::string& name : option.names) text += " \\\n        " + zsh_specification(option, name);
  }
  return text;
}

}  // namespace

std::string zsh_completion(const ProgramDescription& program) {
  std::string text = fmt::format("#compdef {0}\n_{0}() {{\n  local -a commands=(\n", program.name);
  for (const CommandDescription& command : program.commands) {
    text += fmt::format("    '{}:{}'\n", command.name, zsh_escaped(command.help));
  }
  text += fmt::format("  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    {}\n    return\n  fi\n",
                      zsh_arguments(program.options));
  text += "  shift words\n  ((CURRENT--))\n  case $words[1] in\n";
  for (const CommandDescription& command : program.commands) {
    text += fmt::format("    {})\n      {}\n      ;;\n", command.name, zsh_arguments(command.options));
  }
  // As an autoloaded function it completes at once; sourced, it registers itself.
  return text + fmt::format(
                    "  esac\n}}\n"
                    "if [[ $funcstack[1] == _{0} ]]; then\n  _{0} \"$@\"\nelse\n  compdef _{0} {0}\nfi\n",
                    program.name);
}

}  // namespace lockstep::launcher
