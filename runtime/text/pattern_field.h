// The `pattern` of a tokenizer.json component: {"String": text} or {"Regex": expression}.
#pragma once

#include <memory>

#include "runtime/text/json_field.h"
#include "runtime/text/pattern.h"

namespace lockstep::text {

Result<std::shared_ptr<const Pattern>> parse_pattern(const JsonField& field);

/// Replaces every match of `pattern` in `text` by `content`. An empty text has no match, as in the tokenizers package.
Result<std::string> replace_all(const Pattern& pattern, std::string_view text, std::string_view content);

/// A string with exactly one character.
Result<char32_t> parse_char(const JsonField& field);

}  // namespace lockstep::text
