// Differences of the tokenizers package's Unicode tables from Unicode 14, the version of Debian 12's PCRE2.
//
// The package uses a newer version in expressions, Digits and Lowercase, and older ones in Punctuation, StripAccents
// and normal forms. The tables are written by tools/make_unicode_tables.py. They add nothing where PCRE2 or utf8proc
// are newer and know the characters.
#pragma once

#include <span>
#include <string_view>

namespace lockstep::text {

/// The characters `first` to `last`, both included.
struct CharRange {
  char32_t first = 0;
  char32_t last = 0;
};

/// Characters with a general category that they do not have in Unicode 14.
struct NewChars {
  CharRange range;
  std::string_view category;      // two letters: "Lo"
  std::string_view was;           // the category in Unicode 14; "Cn" if the characters were not assigned
  std::string_view script;        // "Han"; empty if Unicode 14 does not have the script or the character had it
  std::string_view short_script;  // "Hani"
  std::string_view flags;         // a: Alphabetic, l: Lowercase, u: Uppercase
};

/// Characters with a lower case that is `offset` after them.
struct LowerCase {
  CharRange range;
  int offset = 0;
};

enum class UnicodeUse { kDigits, kPunctuation, kStripAccents, kDecompose, kDecomposeCompatible };

/// In order of characters.
std::span<const NewChars> new_chars();
std::span<const LowerCase> new_lower_cases();
/// The characters that the package treats otherwise than their category says, in order.
std::span<const CharRange> exceptions(UnicodeUse use);

}  // namespace lockstep::text
