// The JSON form of each field type, and its description in messages.
#pragma once

#include <string_view>

#include "runtime/generation/option_rows.h"

namespace lockstep::generation {

struct FormOfType {
  OptionForm form;
  std::string_view expected;
};

template <typename T>
inline constexpr FormOfType kFormOf = kFormOf<typename T::value_type>;  // of an optional's value

template <>
inline constexpr FormOfType kFormOf<bool>{OptionForm::kFlag, "true or false"};
template <>
inline constexpr FormOfType kFormOf<double>{OptionForm::kNumber, "a number"};
template <>
inline constexpr FormOfType kFormOf<int32_t>{OptionForm::kWhole, "a 32-bit whole number"};
template <>
inline constexpr FormOfType kFormOf<uint64_t>{OptionForm::kWhole, "a whole number, 0 or more"};
template <>
inline constexpr FormOfType kFormOf<EarlyStopping>{OptionForm::kWord, "true, false or \"never\""};
template <>
inline constexpr FormOfType kFormOf<std::vector<int32_t>>{OptionForm::kIds, "an id or a list of ids"};
template <>
inline constexpr FormOfType kFormOf<std::vector<std::string>>{OptionForm::kTexts, "a string or a list of strings"};
template <>
inline constexpr FormOfType kFormOf<std::vector<std::vector<int32_t>>>{OptionForm::kJson, "a list of lists of ids"};
template <>
inline constexpr FormOfType kFormOf<std::vector<BiasedSequence>>{OptionForm::kJson,
                                                                 "a list like [[[5, 6], -1.5], [[7], 2.0]]"};
template <>
inline constexpr FormOfType kFormOf<LengthDecay>{OptionForm::kJson, "a list of a whole number and a factor"};
template <>
inline constexpr FormOfType kFormOf<Watermark>{
    OptionForm::kJson,
    "an object with greenlist_ratio, bias, hashing_key, seeding_scheme (\"lefthash\" or \"selfhash\") and "
    "context_width"};

}  // namespace lockstep::generation
