// Character classes of expressions, in Oniguruma's meaning and PCRE2's syntax.
//
//   Oniguruma        meaning                              PCRE2 alone
//   \p{Han}          the script                           script extensions as well
//   \p{L}            the category in a newer Unicode      the category in its version
//   \w               Alphabetic, M, Nd, Pc                L, N, _
//   [[:punct:]]      P, S                                 P and ASCII symbols
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::text {

/// Which characters the classes know. Those of Unicode 14 alone make expressions that match several times as fast.
enum class UnicodeVersion { k14, kNewer };

/// A union of items of a bracket and of expressions that match one character.
class CharClass {
 public:
  CharClass() = default;
  explicit CharClass(std::string items) : items_(std::move(items)) {}
  static CharClass from_expression(std::string expression);

  void add(const CharClass& other);
  CharClass negated() const;
  /// As PCRE2 reads it; matches nothing if the class is empty.
  std::string expression() const;

 private:
  bool is_property() const;
  std::string items_;
  std::vector<std::string> expressions_;
};

CharClass white_space_class();                     // \s
CharClass hexadecimal_class();                     // \h
CharClass digit_class(UnicodeVersion);             // \d
CharClass word_class(UnicodeVersion);              // \w
CharClass word_in_brackets_class(UnicodeVersion);  // [\w]
/// The class of \p{name} without a leading ^. An unknown name is taken for a script, for PCRE2 to accept or reject.
CharClass property_class(std::string_view name, UnicodeVersion version);
/// The class of [:name:] without a leading ^; `nullopt` for an unknown name.
std::optional<CharClass> posix_class(std::string_view name, UnicodeVersion version);
/// Whether \p{name} or [:name:] may match other characters where case is ignored.
bool depends_on_case(std::string_view name);

/// `c` as a literal, inside and outside brackets.
std::string literal_char(char32_t c);

}  // namespace lockstep::text
