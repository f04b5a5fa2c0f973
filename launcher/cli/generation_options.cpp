#include "launcher/cli/generation_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>

#include "lockstep/request.h"

namespace lockstep::launcher {
namespace {

/// A bare word becomes a JSON string, unless it is true or false.
std::string quoted(const std::string& word) {
  return word == "true" || word == "false" ? word : fmt::format("\"{}\"", word);
}

void add_numbers(CLI::App& app, const GenerationOption& row, const std::function<void(const std::string&)>& put) {
  CLI::Option* const option = app.add_option_function<std::string>(flag_of(row), put, std::string(row.help));
  if (row.most_asked > 0) {
    option->check(CLI::Range(1, row.most_asked))->type_name("N");
  } else {
    option->check(CLI::Validator(CLI::Number).description(""))->type_name("X");  // "X" is enough
  }
}

void add_flags(CLI::App& app, const GenerationOption& row, std::map<std::string, std::string>& values) {
  const std::string flag = flag_of(row);
  const std::string help(row.help);
  const auto put = [&values, name = std::string(row.name)](const std::string& text) { values[name] = text; };
  const auto add = [&](const auto& take, const char* value_name) {
    app.add_option_function<std::string>(flag, take, help)->type_name(value_name);
  };
  switch (row.form) {
    case OptionForm::kNumber:
    case OptionForm::kWhole: return add_numbers(app, row, put);
    case OptionForm::kIds:
      return add([put](const std::string& ids) { put(ids.starts_with('[') ? ids : fmt::format("[{}]", ids)); },
                 "I[,I]");
    case OptionForm::kFlag:
      app.add_flag_callback(
          flag, [put] { put("true"); }, help);
      app.add_flag_callback(
          "--no-" + flag.substr(2), [put] { put("false"); }, "Not " + flag);
      return;
    case OptionForm::kWord: return add([put](const std::string& word) { put(quoted(word)); }, "WORD");
    case OptionForm::kTexts:
    case OptionForm::kJson: return add(put, "JSON");
  }
}

}  // namespace

void add_generation_options(CLI::App& app, GenerateCommand& command) {
  for (const GenerationOption& row : generation_options()) {
    if (row.flag_source == FlagSource::kRow) add_flags(app, row, command.generation);
  }
  app.add_flag("--ignore-eos", command.ignore_eos, "Do not end at an end-of-sequence token");
  app.add_option("--stop,--stop-strings", command.stop_strings,
                 std::string(find_generation_option("stop_strings")->help))
      ->type_name("TEXT");
}

}  // namespace lockstep::launcher
