// A template's source as tokens, with white space already trimmed the way transformers sets jinja2: the newline behind
// a block goes (trim_blocks), so does white space before a block that begins its line (lstrip_blocks), and `-` at a
// delimiter takes all white space on its side.
//
//   "Hi {{ name }}!\n"  ─►  text "Hi " | {{ | name "name" | }} | text "!"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::jinja {

struct Token {
  enum class Kind {
    kText,
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;  // for a string: its value
  int line = 1;
};

/// "[runtime/text] chat template, line N: …"
Error template_error(ErrorKind kind, int line, std::string_view what);

/// Ends with a `kEnd` token. Fails with `kInvalidArgument`, naming the line.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace lockstep::jinja
