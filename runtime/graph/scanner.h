// Reads the words, names and numbers of the text form, and says where it met something else.
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
/// "…" with everything but printable ASCII and UTF-8 escaped.
std::string quoted(std::string_view text);
/// Bare where that is possible.
std::string written_name(std::string_view name);

/// A position in a text that outlives it. White space, line ends included, separates and means nothing else.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// Skips white space; the position of what follows.
  size_t next();
  bool at_end() { return next() == text_.size(); }
  bool at(char symbol) { return next() < text_.size() && text_[offset_] == symbol; }
  /// Whether a letter is next.
  bool at_word();
  /// Goes past `symbol` if it is next.
  bool accept(char symbol);

  Result<void> expect(char symbol);
  /// Exactly `word` and not a longer one.
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
  /// The same for what is next.
  Error unexpected(std::string_view expected) { return unexpected(expected, next()); }

 private:
  template <typename Number>
  Result<Number> read_number(std::string_view expected);

  std::string_view text_;
  size_t offset_ = 0;
};

}  // namespace lockstep::graph
