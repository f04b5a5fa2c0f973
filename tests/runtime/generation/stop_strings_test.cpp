#include "runtime/generation/stop_strings.h"

#include <gtest/gtest.h>

namespace lockstep::generation {
namespace {

using Pieces = std::vector<std::string>;

struct Seen {
  std::string shown;
  std::string match;
  bool operator==(const Seen&) const = default;
};

Seen run(const Pieces& stops, const Pieces& pieces) {
  StopStrings matcher(stops);
  Seen seen;
  for (const std::string& piece : pieces) {
    seen.shown += matcher.put(piece).text;
    if (matcher.stopped()) break;
  }
  if (!matcher.stopped()) seen.shown += matcher.finish();
  seen.match = matcher.match();
  return seen;
}

TEST(StopStrings, ShowsEverythingAtOnceWithoutStops) {
  StopStrings matcher({});
  EXPECT_EQ(matcher.put("abc").text, "abc");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStrings, CutsTheTextBeforeAMatchThatCrossesPieces) {
  EXPECT_EQ(run({"END"}, {"the E", "NGINE", " runs", " EN", "D of"}), (Seen{"the ENGINE runs ", "END"}));
}

TEST(StopStrings, HoldsBackOnlyWhatMayBeginAMatch) {
  StopStrings matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.put("Hi\n").text, "Hi");
  EXPECT_EQ(matcher.put("\n").text, "");
  EXPECT_EQ(matcher.put("Us").text, "");
  EXPECT_EQ(matcher.put("ual").text, "\n\nUsual");
  EXPECT_EQ(matcher.put("\n").text, "");
  EXPECT_EQ(matcher.finish(), "\n");
}

TEST(StopStrings, ShowsNothingAfterAMatch) {
  StopStrings matcher({"x"});
  EXPECT_EQ(matcher.put("axb").text, "a");
  EXPECT_TRUE(matcher.put("c").stopped);
  EXPECT_EQ(matcher.put("c").text, "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStrings, TakesTheFirstMatchToBeCompletedAndOfThoseTheLongest) {
  EXPECT_EQ(run({"abcd", "bc"}, {"xabcd"}), (Seen{"xa", "bc"}));
  EXPECT_EQ(run({"cd", "abcd", "bcd"}, {"xabcd"}), (Seen{"x", "abcd"}));
}

TEST(StopStrings, MatchesBytesInsideACharacter) {
  const std::string euro = "€";  // three bytes
  EXPECT_EQ(run({"€"}, {"5 " + euro.substr(0, 1), euro.substr(1, 1), euro.substr(2)}), (Seen{"5 ", "€"}));
}

// A direct search is the oracle: over all texts of a small alphabet, cut at every place.
TEST(StopStrings, DoesNotDependOnHowTheTextIsCut) {
  const Pieces stops = {"aab", "abab", "ba", "bbb"};
  for (int bits = 0; bits < 1 << 9; ++bits) {
    std::string text;
    for (int i = 0; i < 9; ++i) text += (bits >> i & 1) != 0 ? 'b' : 'a';
    Seen expected{text, ""};
    for (size_t end = 1; end <= text.size() && expected.match.empty(); ++end) {
      for (const std::string& stop : stops) {
        if (text.substr(0, end).ends_with(stop) && stop.size() > expected.match.size()) {
          expected = {text.substr(0, end - stop.size()), stop};
        }
      }
    }
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      ASSERT_EQ(run(stops, {text.substr(0, cut), text.substr(cut)}), expected) << text << " cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace lockstep::generation
