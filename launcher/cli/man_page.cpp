#include "launcher/cli/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "runtime/core/error_kinds.h"

namespace lockstep::launcher {
namespace {

/// Decodes the code point at `text[at]` and moves `at` past it. Our own help is valid UTF-8.
uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto first = static_cast<uint8_t>(text[at++]);
  uint32_t point = first < 0x80 ? first : first < 0xE0 ? first & 0x1FU : first < 0xF0 ? first & 0x0FU : first & 0x07U;
  while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0U) == 0x80U) {
    point = point << 6U | (static_cast<uint8_t>(text[at++]) & 0x3FU);
  }
  return point;
}

/// Escapes text for troff: dashes of options, backslashes, characters beyond ASCII, a dot at the start of a line.
std::string troff(std::string_view text) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    const uint32_t point = next_code_point(text, at);
    if (point >= 0x80) {
      made += fmt::format("\\[u{:04X}]", point);
    } else if (point == '\\') {
      made += "\\e";
    } else if (point == '-') {
      made += "\\-";
    } else {
      const bool begins_line = made.empty() || made.back() == '\n';
      if (begins_line && (point == '.' || point == '\'')) made += "\\&";
      made += static_cast<char>(point);
    }
  }
  return made;
}

/// A paragraph without surrounding blank lines.
std::string paragraph(std::string_view text) {
  while (text.starts_with('\n')) text.remove_prefix(1);
  return text.empty() ? "" : troff(text) + "\n";
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return text;
}

/// The facts after an option's help: its values, its default.
std::string facts(const OptionDescription& option) {
  std::string text;
  if (!option.choices.empty()) text += fmt::format("One of: {}.\n", fmt::join(option.choices, ", "));
  if (!option.bounds.empty()) text += fmt::format("Value: {}.\n", option.bounds);
  if (!option.default_value.empty()) text += fmt::format("Default: {}.\n", option.default_value);
  if (option.is_required) text += "Required.\n";
  return text.empty() ? "" : ".br\n" + troff(text);
}

std::string option_text(const OptionDescription& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", troff(name));
  }
  const std::string value = option.value_name.empty() ? "" : fmt::format("\\fI{}\\fR", troff(option.value_name));
  const std::string space = names.empty() || value.empty() ? "" : " ";
  return fmt::format(".TP\n{}{}{}\n{}{}", names, space, value, paragraph(option.help), facts(option));
}

/// A command's options; sections after the first have a heading.
std::string options_text(const std::vector<OptionDescription>& options) {
  std::string text, section;
  for (const OptionDescription& option : options) {
    if (option.section != section) text += fmt::format(".PP\n\\fI{}\\fR\n", troff(option.section));
    section = option.section;
    text += option_text(option);
  }
  return text;
}

/// The kinds of failure by their exit codes.
std::string exit_status() {
  std::map<int, std::string> codes = {{0, "ok"}};
  for (const ErrorKind kind : kErrorKinds) {
    std::string name(to_string(kind));
    std::ranges::replace(name, '_', ' ');
    std::string& names = codes[exit_code(kind)];
    names += (names.empty() ? "" : ", ") + name;
  }
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, names] : codes) text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", code, names);
  return text;
}

}  // namespace

std::string man_page(const ProgramDescription& program, std::string_view version) {
  std::string text = fmt::format(".TH {} 1 \"\" \"{}\" \"User Commands\"\n", upper(program.name), troff(version));
  text += fmt::format(".SH NAME\n{} \\- {}", program.name, paragraph(program.help));
  text += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH OPTIONS\n{}.SH COMMANDS\n",
                      program.name, options_text(program.options));
  for (const CommandDescription& command : program.commands) {
    text += fmt::format(".SS {} {}\n{}{}", program.name, command.name, paragraph(command.help),
                        options_text(command.options));
    if (!command.footer.empty()) text += ".PP\n" + paragraph(command.footer);
  }
  return text + exit_status();
}

}  // namespace lockstep::launcher
