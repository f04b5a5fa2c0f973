#include "launcher/cli/option_table.h"

#include <fmt/format.h>

#include <string_view>

#include "lockstep/request.h"

namespace lockstep::launcher {
namespace {

constexpr std::string_view kIntroduction =
    "# Options of generation\n\n"
    "Made by `lockstep generate --option-table`; the tests compare it. Names and defaults are those of Hugging Face's\n"
    "GenerationConfig, except the length: without `max_new_tokens` a sequence runs until an end token or until its "
    "slot\n"
    "is full. generation_config.json is read first, or in its absence the options in config.json; flags replace what\n"
    "it sets, and a row of a batch job ([batch_jobs.md](batch_jobs.md)) what the flags set. What only draws depend "
    "on\n"
    "may have any value where nothing is drawn.\n\n"
    "- *Applied by*: the **graph**, inside the compiled steps; the **host**, which then chooses every token from "
    "gathered\n"
    "  logits and takes no drafts; or around the steps, with the **request**.\n"
    "- *Row*: the field of a batch job's row that sets it.\n"
    "- Options that change only the speed are marked so: a journal goes on with other values of them.\n\n"
    "| option | flag | default | values | applied by | row | meaning |\n"
    "| --- | --- | --- | --- | --- | --- | --- |\n";

std::string_view name_of(AppliedBy who) {
  switch (who) {
    case AppliedBy::kGraph: return "graph";
    case AppliedBy::kHost: return "host";
    case AppliedBy::kRequest: return "request";
  }
  return "";
}

std::string_view name_of(OptionForm form) {
  switch (form) {
    case OptionForm::kFlag: return "true, false";
    case OptionForm::kNumber: return "number";
    case OptionForm::kWhole: return "whole number";
    case OptionForm::kIds: return "ids";
    case OptionForm::kWord: return "word";
    case OptionForm::kTexts: return "texts";
    case OptionForm::kJson: return "JSON";
  }
  return "";
}

std::string code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

std::string values_of(const GenerationOption& row) {
  if (row.allowed.empty()) return std::string(name_of(row.form));
  if (row.form == OptionForm::kNumber) return std::string(row.allowed);
  return fmt::format("{}: {}", name_of(row.form), row.allowed);
}

std::string row_text(const GenerationOption& row) {
  const std::string flag = row.flag_source == FlagSource::kNone ? "" : code(flag_of(row));
  return fmt::format("| `{}` | {} | {} | {} | {} | {} | {}{} |\n", row.name, flag, row.default_value(), values_of(row),
                     name_of(row.applied_by), code(row.batch_field), row.help,
                     row.effect == OptionEffect::kSpeed ? " (speed only)" : "");
}

}  // namespace

std::string option_table() {
  std::string text(kIntroduction);
  for (const GenerationOption& row : generation_options()) text += row_text(row);
  return text;
}

}  // namespace lockstep::launcher
