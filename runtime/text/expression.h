// Translation of regular expressions from Oniguruma's dialect (of tokenizer.json) to PCRE2's.
//
//   Oniguruma                 means                            written for PCRE2 as
//   \s                        White_Space                      [\t-\r \x{85}\p{Z}]: PCRE2's \s has U+180E as well
//   \h                        a hexadecimal digit              [0-9A-Fa-f]
//   [^(\s|[.,])]              classes inside classes: a union  [^(…|.,)]
//   [\p{L}&&[^\p{Han}]]       an intersection                  (?:(?=[\p{L}])[^\p{Han}])
//   x{1,3}+                   (?:x{1,3})+, not possessive      (?:x{1,3})+
#pragma once

#include <string>
#include <string_view>

namespace lockstep::text {

/// Leaves unknown syntax unchanged, for PCRE2 to accept or reject.
std::string to_pcre2(std::string_view expression);

}  // namespace lockstep::text
