// Translation of regular expressions from Oniguruma's dialect (of tokenizer.json) to PCRE2's.
//
//   Oniguruma                 means                            written for PCRE2 as
//   \p{L}, \w, [[:alpha:]]    classes (char_class.h)           brackets with the package's characters
//   \b                        a border of \w                   (?:(?<=\w)(?!\w)|(?<!\w)(?=\w))
//   [^(\s|[.,])]              classes inside classes: a union  [^(…|.,)]
//   [\p{L}&&[^\p{Han}]]       an intersection                  (?:(?=[\p{L}])[^\p{sc:Han}])
//   x{1,3}+, x{2}?            a quantified quantifier          (?:x{1,3})+, (?:x{2})?
//   x{,3}                     x{0,3}                           x{0,3}
//   (?m)                      . matches line feeds             (?s)
//   a(?i)b|c                  a(?i:b|c)                        a(?i:b|c)
//   \v, \u4e00                characters                       \x{B}, 一
#pragma once

#include <string>
#include <string_view>

#include "runtime/core/result.h"
#include "runtime/text/char_class.h"

namespace lockstep::text {

/// Fails with `kUnsupported` on syntax that is not translated, naming it. Such are letters that match several letters
/// where case is ignored: ß and ss.
Result<std::string> to_pcre2(std::string_view expression, UnicodeVersion version);

}  // namespace lockstep::text
