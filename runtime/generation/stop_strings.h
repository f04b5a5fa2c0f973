// Finds stop strings in streamed text, and determines how much text may be shown.
//
//   stop strings "END", "\n\n"      pieces   "the E" "NGINE" " runs" " EN" "D of"
//                                   shown    "the "  "ENGINE" " runs" " "    (stopped before "END")
//
// The match that completes first wins; among those that complete at the same byte, the longest. The result therefore
// does not depend on how the text was cut into pieces. Works on bytes, because a piece may end inside a character.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::generation {

/// The matcher of one sequence. Without stop strings it shows all text immediately.
class StopStrings {
 public:
  /// Empty strings are dropped, because they would match immediately.
  explicit StopStrings(std::vector<std::string> stops);

  /// The result of one piece of text.
  struct Outcome {
    std::string text;  // may be shown now
    bool stopped = false;
  };

  /// Processes the next piece. After a match no more text is shown.
  Outcome put(std::string_view piece);

  /// Returns the text held back, when the text ended without a match.
  std::string finish();

  bool stopped() const { return match_.has_value(); }
  /// The stop string that was found; empty if none.
  std::string_view match() const { return match_ ? std::string_view(patterns_[*match_].text) : std::string_view(); }

 private:
  /// A stop string, and how many of its bytes the text's end matches (Knuth, Morris and Pratt, 1977).
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
