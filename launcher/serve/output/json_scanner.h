// Checks JSON text one byte at a time.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::serve {

/// A scanner of one JSON object or array. Control characters inside strings are let through, because models write
/// them: `json_escaped` makes such text valid.
class JsonScanner {
 public:
  enum class State { kMore, kComplete, kInvalid };

  /// After `kComplete` or `kInvalid` nothing may be put.
  State put(char byte);

  /// Open objects and arrays; at most 256, deeper text is invalid.
  size_t depth() const { return open_.size(); }
  /// Whether the next byte is inside a string.
  bool in_string() const { return expect_ == Expect::kString || expect_ == Expect::kEscape || expect_ == Expect::kHex; }

 private:
  enum class Expect {
    kStart,
    kValue,         // after ':' or ','
    kValueOrClose,  // after '['
    kKey,           // after ',' in an object
    kKeyOrClose,    // after '{'
    kColon,
    kCommaOrClose,
    kString,
    kEscape,
    kHex,
    kNumber,
    kLiteral,
  };

  State put_string(char byte);
  State put_number(char byte);
  State put_structure(char byte);
  State begin_value(char byte);
  State open(char bracket);
  State close(char bracket);
  State expect(Expect next);

  std::string open_;  // brackets
  Expect expect_ = Expect::kStart;
  bool string_is_key_ = false;
  int hex_left_ = 0;
  std::string_view literal_left_;
  char number_ = 0;  // what the number ends with: '-', '0', '1' (digits), '.', 'f' (fraction), 'e', '+', 'x' (exponent)
};

/// `byte` of a JSON text as valid JSON: a control character inside a string becomes its escape sequence.
std::string json_escaped(char byte, bool in_string);

inline bool is_json_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

/// A text as a JSON string, with its quotes; what is no UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

/// `byte` of any text as part of a JSON string.
std::string json_string_byte(char byte);

}  // namespace lockstep::serve
