// The functions of option rows: reading a value into its field, and checking it.
#pragma once

#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "runtime/generation/option_rows.h"

namespace lockstep::generation {

/// The valid range of an option. NaN is always invalid.
struct Bounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  enum class End { kIncluded, kExcluded } least_is = End::kIncluded, most_is = End::kIncluded;
  std::string_view expected = {};  // empty: no bounds

  constexpr bool hold(double value) const {
    const bool above = least_is == End::kIncluded ? value >= least : value > least;
    return above && (most_is == End::kIncluded ? value <= most : value < most);
  }
};

/// A row with the functions of its field.
struct Option {
  GenerationOption row;
  std::string_view expected;  // the form of a value, as text
  Bounds bounds = {};
  enum class Counts { kAlways, kWhenSampling, kWithBeams } counts = Counts::kAlways;

  /// Returns false, without a change, when the value has another form.
  bool (*read)(const nlohmann::json& value, GenerationConfig& config);
  bool (*differs)(const GenerationConfig& config);  // whether the value differs from the default
  /// Checks the field by itself.
  Result<void> (*check)(const Option& option, const GenerationConfig& config);
};

/// In the order of GenerationConfig.
std::span<const Option> options();

/// Whether the option has an effect beside the others: top_p has none on greedy rows.
bool has_effect(const Option& option, const GenerationConfig& config);

/// "[runtime/generation] top_k: found -1, expected 0 (all tokens) or more".
Error invalid_option(std::string_view option, std::string_view found, std::string_view expected);

}  // namespace lockstep::generation
