// The tokens of a template's source, with white space trimmed as in transformers' jinja2 settings. The newline after a
// block is removed (trim_blocks), also white space before a block at the start of a line (lstrip_blocks), and `-` at a
// delimiter removes all white space on its side.
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

/// The result ends with a `kEnd` token. Fails with `kInvalidArgument`, naming the line.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace lockstep::jinja
