#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "launcher/cli/completion.h"

namespace lockstep::launcher {
namespace {

constexpr std::string_view kBashBegin = R"(# bash completion of {0}
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words= command=
  if ((COMP_CWORD > 1)); then command=${{COMP_WORDS[1]}}; fi
  # --option=value is three words: "=" breaks them.
  if [[ $current == "=" ]]; then
    current=
  elif [[ $before == "=" ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  COMPREPLY=()
  case "$command $before" in
)";

constexpr std::string_view kBashEnd = R"(  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o bashdefault -F _{0} {0}
)";

/// The case pattern of positions after an option: `"generate --launch"`.
std::string bash_places(const CommandDescription& command, const OptionDescription& option) {
  std::string text;
  for (const std::string& name : option.names) {
    text += fmt::format("{}\"{} {}\"", text.empty() ? "" : " | ", command.name, name);
  }
  return text;
}

std::string_view bash_paths(ValueKind kind) { return kind == ValueKind::kFolder ? "compgen -d" : "compgen -f"; }

/// The completion of an option's value; nothing for options of one command without listed values.
std::string bash_value_case(const CommandDescription& command, const OptionDescription& option) {
  switch (option.kind) {
    case ValueKind::kNone: return "";
    case ValueKind::kChoice:
      return fmt::format("    {}) words='{}' ;;\n", bash_places(command, option), fmt::join(option.choices, " "));
    case ValueKind::kFile:
    case ValueKind::kFolder:
      return fmt::format(
          "    {})\n"
          "      compopt -o filenames 2>/dev/null\n"
          "      mapfile -t COMPREPLY < <({} -- \"$current\")\n"
          "      return\n"
          "      ;;\n",
          bash_places(command, option), bash_paths(option.kind));
    case ValueKind::kOther: return fmt::format("    {}) return ;;\n", bash_places(command, option));
  }
  return "";
}

std::string bash_words(const std::vector<OptionDescription>& options) {
  std::string names;
  for (const OptionDescription& option : options) {
    for (const std::string& word : option.names.empty() ? option.choices : option.names) {
      names += (names.empty() ? "" : " ") + word;
    }
  }
  return names;
}

}  // namespace

std::string bash_completion(const ProgramDescription& program) {
  std::string text = fmt::format(kBashBegin, program.name);
  std::string commands = bash_words(program.options);
  for (const CommandDescription& command : program.commands) {
    for (const OptionDescription& option : command.options) {
      if (!option.names.empty()) text += bash_value_case(command, option);
    }
    text += fmt::format("    \"{} \"*) words='{}' ;;\n", command.name, bash_words(command.options));
    commands += " " + command.name;
  }
  return text + fmt::format("    \" \"*) words='{}' ;;\n", commands) + fmt::format(kBashEnd, program.name);
}

}  // namespace lockstep::launcher
