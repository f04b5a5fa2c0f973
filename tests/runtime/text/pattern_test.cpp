#include "runtime/text/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/text/expression.h"
#include "runtime/text/split_behavior.h"

namespace lockstep::text {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> matches(std::string_view expression, std::string_view text) {
  const auto pattern = Pattern::compile(expression).value();
  Pattern::Matcher matcher(*pattern);
  std::vector<std::string> found;
  const auto spans = matcher.find_all(text).value();
  for (const Span& span : spans) {
    found.emplace_back(text.substr(span.begin, span.end - span.begin));
  }
  return found;
}

TEST(Pattern, MeansWhiteSpaceByS) {
  EXPECT_THAT(matches(R"(\s)", "a\u00a0\u0085b\u180e"), ElementsAre("\u00a0", "\u0085"));
  EXPECT_THAT(matches(R"([^\s]+)", "a\u3000b\u180ec"), ElementsAre("a", "b\u180ec"));
  EXPECT_THAT(matches(R"(\S+)", "a b"), ElementsAre("a", "b"));
}

TEST(Pattern, JoinsClassesInsideClasses) {
  EXPECT_THAT(matches(R"([^(\s|[.,!])]+)", "ab.c|d (e]f"), ElementsAre("ab", "c", "d", "e]f"));
  EXPECT_THAT(matches(R"([a[^b-z]]+)", "ab19z"), ElementsAre("a", "19"));
  EXPECT_THAT(matches(R"([[:digit:]x]+)", "12x-[:"), ElementsAre("12x"));
}

TEST(Pattern, IntersectsClasses) {
  EXPECT_THAT(matches(R"([\p{L}&&[^\p{Han}]]+)", "ab字c"), ElementsAre("ab", "c"));
  EXPECT_THAT(matches(R"([^a-z&&[aeiou]]+)", "aXbe"), ElementsAre("Xb"));
}

TEST(Pattern, TakesAPlusBehindAnIntervalAsARepetition) {
  EXPECT_EQ(to_pcre2(R"(\p{N}{1,3}+)"), R"((?:\p{N}{1,3})+)");
  EXPECT_EQ(to_pcre2(R"(\p{N}{1,3}|x++)"), R"(\p{N}{1,3}|x++)");
}

TEST(Pattern, FindsEmptyMatchesOnce) {
  EXPECT_THAT(matches("a*", "baac"), ElementsAre("", "aa", ""));
  EXPECT_THAT(matches("^", "a\nb"), ElementsAre("", ""));
}

std::vector<std::string> split(SplitBehavior behavior, Delimiters delimiters = Delimiters::kMatches) {
  constexpr std::string_view kText = "a-b--c";
  const std::vector<Span> dashes = {{1, 2}, {3, 4}, {4, 5}};
  std::vector<std::string> parts;
  for (const Span& span : split_at(dashes, kText.size(), behavior, delimiters)) {
    parts.emplace_back(kText.substr(span.begin, span.end - span.begin));
  }
  return parts;
}

TEST(SplitAt, TreatsDelimitersAsTheBehaviourSays) {
  EXPECT_THAT(split(SplitBehavior::kRemoved), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split(SplitBehavior::kIsolated), ElementsAre("a", "-", "b", "-", "-", "c"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithPrevious), ElementsAre("a-", "b-", "-", "c"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithNext), ElementsAre("a", "-b", "-", "-c"));
  EXPECT_THAT(split(SplitBehavior::kContiguous), ElementsAre("a", "-", "b", "--", "c"));
}

TEST(SplitAt, SwapsMatchesAndRestWhenInverted) {
  EXPECT_THAT(split(SplitBehavior::kRemoved, Delimiters::kRest), ElementsAre("-", "-", "-"));
}

}  // namespace
}  // namespace lockstep::text
