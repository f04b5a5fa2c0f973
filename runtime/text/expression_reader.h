// The lexical parts of expressions in Oniguruma's dialect.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::text {

/// "{1,3}". An empty `high` is unbounded.
struct Interval {
  size_t length = 0;  // in the source
  std::string low;
  std::string high;
  bool exact = false;       // "{2}": no lazy form
  bool possessive = false;  // "{3,1}"
};

/// "(?i-m:" or "(?i)".
struct OptionChange {
  size_t length = 0;  // in the source
  std::string letters;
  bool opens = false;  // a group
};

/// A class by its name: "\p{^L}", "[:^alpha:]".
struct NamedClass {
  std::string name;
  bool negated = false;
};

/// A position in an expression of well-formed UTF-8. Methods that return nothing leave it.
class ExpressionReader {
 public:
  enum class Place { kOutside, kInBrackets };

  explicit ExpressionReader(std::string_view source) : source_(source) {}
  std::string_view source() const { return source_; }
  bool at_end() const { return at_ >= source_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool starts_with(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void skip(size_t bytes);
  void skip_past(std::string_view text);  // or to the end
  std::string_view take(size_t bytes);
  char32_t next();

  /// The quantifier in braces here.
  std::optional<Interval> interval() const;
  /// The change of options here.
  std::optional<OptionChange> option_group() const;
  /// Reads "(", "(?:", "(?<name>" and the like.
  std::string_view group_start();
  /// Reads an escape that means one character.
  std::optional<char32_t> char_escape(Place place);
  /// Reads a character of a bracket.
  std::optional<char32_t> class_char();
  /// Reads "\p{…}" or "\P{…}".
  std::optional<NamedClass> property();
  /// Reads "[:…:]".
  std::optional<NamedClass> posix_bracket();

 private:
  std::string_view source_;
  size_t at_ = 0;
};

}  // namespace lockstep::text
