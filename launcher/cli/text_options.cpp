#include <CLI/CLI.hpp>
#include <map>

#include "launcher/cli/commands.h"
#include "launcher/cli/completion.h"
#include "launcher/cli/man_page.h"
#include "launcher/cli/program_description.h"

namespace lockstep::launcher {
namespace {

using Completion = std::string (*)(const ProgramDescription& program);

const std::map<std::string, Completion>& completions() {
  static const std::map<std::string, Completion> shells = {
      {"bash", bash_completion}, {"fish", fish_completion}, {"zsh", zsh_completion}};
  return shells;
}

}  // namespace

void add_texts(CLI::App& parent, TextCommands& command) {
  CLI::App& completion = *parent.add_subcommand("completion", "Print the completion file of a shell");
  completion.add_option("shell", command.shell, "Whose: source <(lockstep completion bash)")
      ->required()
      ->check(CLI::IsMember(completions()))
      ->type_name("SHELL");
  command.completion = &completion;
  command.man = parent.add_subcommand("man", "Print the manual page: lockstep man | man -l -");
}

std::optional<std::string> text_of(const TextCommands& command, const CLI::App& program, std::string_view version) {
  if (command.man->parsed()) return man_page(describe(program), version);
  if (!command.completion->parsed()) return std::nullopt;
  return completions().at(command.shell)(describe(program));
}

}  // namespace lockstep::launcher
