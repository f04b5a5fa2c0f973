// UTF-8, Unicode properties for tokenizers, and normal forms. The only file that uses utf8proc.
//
// Properties, lower cases and normal forms are those of the tokenizers package (unicode_tables.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::text {

/// The offset of the first byte outside well-formed UTF-8; `npos` when there is none.
size_t find_invalid_utf8(std::string_view text);

/// The character at byte `at` of well-formed text; advances `at`.
char32_t next_char(std::string_view text, size_t& at);
/// The start of the character that ends before byte `end` (above 0) of well-formed text.
size_t previous_char(std::string_view text, size_t end);
void append_utf8(char32_t c, std::string& out);

/// The number of characters of well-formed text.
size_t count_chars(std::string_view text);

bool is_white_space(char32_t c);  // White_Space
bool is_numeric(char32_t c);      // general category Nd, Nl or No
bool is_punctuation(char32_t c);  // ASCII punctuation and symbols, and general category P* in an older Unicode
bool is_word(char32_t c);         // alphabetic, mark, decimal digit, connector or joiner: \w
bool is_mark(char32_t c);         // general category M*
bool is_accent(char32_t c);       // what StripAccents removes: general category M* in an older Unicode

/// Whether `text` has characters that are newer than Unicode 14 or have another category since (new_chars()).
bool has_new_chars(std::string_view text);

/// Converts character by character, without context: a final sigma stays σ.
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
/// O(n log n), also for long runs of combining marks.
std::string to_normal_form(std::string_view text, NormalForm form);

/// Assembles characters from bytes in arbitrary portions. Invalid bytes become U+FFFD, one for each maximal part of a
/// character, as the Unicode standard recommends (§3.9).
class Utf8Assembler {
 public:
  /// Appends the characters completed by `bytes` to `out`.
  void put(std::string_view bytes, std::string& out);
  /// Ends the text: an unfinished character becomes U+FFFD.
  void finish(std::string& out);

 private:
  std::string pending_;  // the first bytes of a character
  size_t length_ = 0;    // of the complete character, in bytes
};

}  // namespace lockstep::text
