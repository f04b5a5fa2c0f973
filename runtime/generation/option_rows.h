// The table of generation options: notation, place of application, effect.
//
//   GenerationConfig ◄─ a field ─► a row of options.cpp ─┬─► set, validate, generation_config.json
//                                                        ├─► flags, rows of batch jobs, facts of a journal
//                                                        └─► docs/generation.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/generation/generation_config.h"

namespace lockstep::generation {

/// The JSON form of a value.
enum class OptionForm {
  kFlag,    // true or false
  kNumber,  // 0.7
  kWhole,   // 40
  kIds,     // one token id, or a list
  kWord,    // true, false or a word
  kTexts,   // one text, or a list
  kJson,    // lists and objects with a specific structure
};

enum class AppliedBy {
  kGraph,    // inside the compiled graphs
  kHost,     // by the host, with gathered logits
  kRequest,  // outside the steps: lengths, stops, drafts
};

enum class OptionEffect {
  kAnswer,  // changes tokens, or their records
  kSpeed,   // changes only the speed
};

/// The origin of an option's command-line flag.
enum class FlagSource {
  kRow,       // generated from the row
  kSeparate,  // a flag with further effects, such as naming an output file
  kNone,      // generation_config.json and code only
};

/// One field of GenerationConfig. Texts live as long as the program.
struct GenerationOption {
  std::string_view name;  // Hugging Face's name
  std::string_view help;
  OptionForm form = OptionForm::kNumber;
  std::string_view allowed = {};             // valid values as text; empty: all values of the form
  std::string (*default_value)() = nullptr;  // as JSON text
  AppliedBy applied_by = AppliedBy::kRequest;
  OptionEffect effect = OptionEffect::kAnswer;
  FlagSource flag_source = FlagSource::kRow;
  std::string_view own_flag = {};     // if it is not the name with dashes
  std::string_view batch_field = {};  // field of a batch job's row that sets it; empty: not available there
  int32_t most_asked = 0;             // maximum in a flag or a row; 0: no limit
};

/// One row per field, in the order of GenerationConfig.
std::span<const GenerationOption> generation_options();

/// The row of the option `name`, or null.
const GenerationOption* find_generation_option(std::string_view name);

/// The option's command-line flag: "--top-k".
std::string flag_of(const GenerationOption& row);

/// The names of options with a non-default value that the host applies; tokens must then be chosen from gathered
/// logits. If empty, the graphs choose.
std::vector<std::string_view> host_choices(const GenerationConfig& config);

/// Whether the host must choose for this configuration.
inline bool needs_host_choice(const GenerationConfig& config) { return !host_choices(config).empty(); }

}  // namespace lockstep::generation
