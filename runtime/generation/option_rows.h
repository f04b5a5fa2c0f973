// The generation options as rows: how each is written, who applies it and what it changes.
//
//   GenerationConfig ◄─ a field ─► a row of options.cpp ─┬─► set, validate, generation_config.json
//                                                        ├─► flags of the program, rows of batch jobs, facts of a
//                                                        journal └─► docs/generation.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/generation/generation_config.h"

namespace lockstep::generation {

/// How a value is written.
enum class OptionForm {
  kFlag,    // true or false
  kNumber,  // 0.7
  kWhole,   // 40
  kIds,     // one token id, or a list
  kWord,    // true, false or a word
  kTexts,   // one text, or a list
  kJson,    // lists and objects of a form of their own
};

enum class AppliedBy {
  kGraph,    // inside the compiled steps
  kHost,     // the host chooses tokens from gathered logits
  kRequest,  // around the steps: lengths, stops, drafts
};

enum class OptionEffect {
  kAnswer,  // tokens, or what is recorded of them
  kSpeed,   // the same answer, sooner or later
};

/// Where a command line takes an option.
enum class FlagSource {
  kRow,       // a flag made from the row
  kSeparate,  // a flag that does more, such as naming a file to write
  kNone,      // generation_config.json and code only
};

/// One field of GenerationConfig. Texts live as long as the program.
struct GenerationOption {
  std::string_view name;  // Hugging Face's
  std::string_view help;
  OptionForm form = OptionForm::kNumber;
  std::string_view allowed = {};             // the values that `validate` takes, in words; empty: all of the form
  std::string (*default_value)() = nullptr;  // as JSON text
  AppliedBy applied_by = AppliedBy::kRequest;
  OptionEffect effect = OptionEffect::kAnswer;
  FlagSource flag_source = FlagSource::kRow;
  std::string_view own_flag = {};     // where it is not the name with dashes
  std::string_view batch_field = {};  // the field of a batch job's row that sets it; empty: rows may not
  int32_t most_asked = 0;             // by a flag or a row; 0: no limit
};

/// One row per field, in the order of GenerationConfig.
std::span<const GenerationOption> generation_options();

/// The row of the option `name`, or null.
const GenerationOption* find_generation_option(std::string_view name);

/// The option on a command line: "--top-k".
std::string flag_of(const GenerationOption& row);

/// The options that differ from their default and are applied by the host, by name: tokens must then be chosen from
/// gathered logits. Empty: the graphs choose.
std::vector<std::string_view> host_choices(const GenerationConfig& config);

/// Whether the host must choose for this configuration.
inline bool needs_host_choice(const GenerationConfig& config) { return !host_choices(config).empty(); }

}  // namespace lockstep::generation
