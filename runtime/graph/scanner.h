// Reads the words, names and numbers of the text form, with exact error positions.
//
//   bare name     letters, digits, _ . - /         model.layers.0.self_attn.q_proj.weight
//   quoted name   "…" with \" \\ and \x0a          for every other name, and for text attributes
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::graph {

/// Whether the text form writes `name` without quotes.
bool is_bare_name(std::string_view name);
/// The text in quotes, with everything escaped except printable ASCII and UTF-8.
std::string quoted(std::string_view text);
/// Without quotes where possible.
std::string written_name(std::string_view name);

/// A reading position in a text that outlives it. White space, including line ends, only separates.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// Skips white space and returns the new position.
  size_t next();
  bool at_end() { return next() == text_.size(); }
  bool at(char symbol) { return next() < text_.size() && text_[offset_] == symbol; }
  /// Whether a letter is next.
  bool at_word();
  /// Skips `symbol` if it is next.
  bool accept(char symbol);

  Result<void> expect(char symbol);
  /// Skips exactly `word`, not a longer one.
  Result<void> expect_word(std::string_view word);
  /// Letters, digits and underscores: a keyword, an operation, an attribute's name.
  Result<std::string_view> word(std::string_view expected);
  Result<std::string> name();
  Result<std::string> quoted_text();
  Result<int64_t> integer();
  Result<double> number();
  Result<float> float32();

  /// The error for something that is not `expected` at `offset`: `[graph] line 3, column 7: found "x", expected "="`.
  Error unexpected(std::string_view expected, size_t offset) const;
  /// The same error for the next token.
  Error unexpected(std::string_view expected) { return unexpected(expected, next()); }

 private:
  template <typename Number>
  Result<Number> read_number(std::string_view expected);

  std::string_view text_;
  size_t offset_ = 0;
};

}  // namespace lockstep::graph
