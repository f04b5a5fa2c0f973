// Finds stop strings in text that arrives in pieces, and says how much of it may be shown.
//
//   stop strings "END", "\n\n"      pieces   "the E" "NGINE" " runs" " EN" "D of"
//                                   shown    "the "  "ENGINE" " runs" " "    (stopped before "END")
//
// The first match to be completed counts; among those completed at the same byte, the longest. So the answer does not
// depend on how the text was cut into pieces. Bytes, not characters: a piece may end inside a match.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::generation {

/// One sequence's matcher. With no stop strings it shows everything at once.
class StopStrings {
 public:
  /// Empty strings are dropped: they would end everything at once.
  explicit StopStrings(std::vector<std::string> stops);

  /// What a piece of text led to.
  struct Outcome {
    std::string text;  // may be shown now
    bool stopped = false;
  };

  /// Takes the next piece. After a match nothing more is shown.
  Outcome put(std::string_view piece);

  /// What was held back, when the text ended without a match.
  std::string finish();

  bool stopped() const { return match_.has_value(); }
  /// The stop string that was found; empty while there is none.
  std::string_view match() const { return match_ ? std::string_view(patterns_[*match_].text) : std::string_view(); }

 private:
  /// A stop string and how much of it the text's end matches (Knuth, Morris and Pratt, 1977).
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // [length]: the longest proper prefix that ends text[0 … i]
    size_t matched = 0;

    void take(char byte);
  };

  std::vector<Pattern> patterns_;
  std::string held_;  // the end of the text that may be part of a match
  std::optional<size_t> match_;
};

}  // namespace lockstep::generation
