#include "launcher/cli/program_description.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace lockstep::launcher {
namespace {

/// The position of the checks in "NAME:{a,b}" or "int8[:GROUP]:INT in [1 - 8]": a colon outside of brackets.
size_t begin_of_checks(std::string_view type) {
  int depth = 0;
  for (size_t at = 0; at < type.size(); ++at) {
    if (type[at] == ':' && depth == 0) return at;
    depth += type[at] == '[' ? 1 : type[at] == ']' ? -1 : 0;
  }
  return type.size();
}

/// The choices of a check of the form "{a,b}".
std::vector<std::string> choices_of(const std::string& check) {
  if (!check.starts_with('{') || !check.ends_with('}')) return {};
  return CLI::detail::split(check.substr(1, check.size() - 2), ',');
}

ValueKind kind_of(const OptionDescription& option) {
  if (option.value_name.empty()) return ValueKind::kNone;
  if (!option.choices.empty()) return ValueKind::kChoice;
  if (option.value_name == "DIR") return ValueKind::kFolder;
  return option.value_name == "F" || option.value_name == "OUT" ? ValueKind::kFile : ValueKind::kOther;
}

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription made{.names = {},
                         .section = option.get_group(),
                         .help = option.get_description(),
                         .default_value = option.get_default_str(),
                         .is_required = option.get_required(),
                         .is_repeatable = option.get_expected_max() > 1};
  for (const std::string& name : option.get_snames()) made.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) made.names.push_back("--" + name);
  if (option.get_type_size() != 0 && option.get_expected_max() > 0) {
    const std::string type = option.get_type_name();
    const size_t end = begin_of_checks(type);
    made.value_name = type.substr(0, end);
    if (end < type.size()) made.bounds = type.substr(end + 1);
    made.choices = choices_of(made.bounds);
    if (!made.choices.empty()) made.bounds.clear();
  }
  made.kind = kind_of(made);
  return made;
}

/// Adds the options of an app and then of its groups, which are sections.
void add_options(const CLI::App& app, std::vector<OptionDescription>& options) {
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) options.push_back(describe_option(*option));
  }
  for (const CLI::App* group : app.get_subcommands([](const CLI::App* inner) { return inner->get_name().empty(); })) {
    for (const CLI::Option* option : group->get_options()) {
      if (option == group->get_help_ptr()) continue;  // a duplicate of the app's
      options.push_back(describe_option(*option));
      options.back().section = group->get_description();
    }
  }
}

}  // namespace

ProgramDescription describe(const CLI::App& app) {
  ProgramDescription program{.name = app.get_name(), .help = app.get_description(), .options = {}, .commands = {}};
  add_options(app, program.options);
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App* any) { return !any->get_name().empty(); })) {
    CommandDescription& command = program.commands.emplace_back();
    command.name = inner->get_name();
    command.help = inner->get_description();
    command.footer = inner->get_footer();
    add_options(*inner, command.options);
  }
  return program;
}

}  // namespace lockstep::launcher
