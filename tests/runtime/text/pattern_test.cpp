#include "runtime/text/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Pattern, MatchesNothingByAnEmptyIntersection) {
  EXPECT_THAT(matches(R"([a&&]|[&&])", "a&"), ElementsAre());
  EXPECT_THAT(matches(R"([^&&])", "a&"), ElementsAre("a", "&"));
}

TEST(Pattern, MeansScriptsByTheirNamesNotScriptExtensions) {
  EXPECT_THAT(matches(R"([\p{Han}]+)", "中。a"), ElementsAre("中"));
  EXPECT_THAT(matches(R"(\p{Hiragana}+)", "かー"), ElementsAre("か"));
  EXPECT_THAT(matches(R"(\P{Han}+)", "中。a"), ElementsAre("。a"));
  EXPECT_THAT(matches(R"([^\p{Han}]+|\p{^Latin}+)", "中。a"), ElementsAre("中。", "a"));
}

TEST(Pattern, CountsMarksAndConnectorsAsWords) {
  EXPECT_THAT(matches(R"(\w+|[^\w\s]+)", "cafe\u0301 हिन्दी a‿b ½"), ElementsAre("cafe\u0301", "हिन्दी", "a‿b", "½"));
  EXPECT_THAT(matches(R"([\w]+)", "a²b"), ElementsAre("a", "b"));  // as Oniguruma does, unlike \w alone
  EXPECT_THAT(matches(R"(\w+)", "a²b"), ElementsAre("a²b"));
  EXPECT_THAT(matches(R"(\bb|e\B)", "ab e\u0301 b"), ElementsAre("e", "b"));
}

TEST(Pattern, GivesPosixBracketsTheirUnicodeMeaning) {
  EXPECT_THAT(matches("[[:punct:]]+", "a+«b»€"), ElementsAre("+«", "»€"));
  EXPECT_THAT(matches(R"(\p{Punct}+)", "a+«b»€"), ElementsAre("«", "»"));
  EXPECT_THAT(matches("[[:alpha:]]+", "aⅧ1\u0345"), ElementsAre("aⅧ", "\u0345"));
  EXPECT_THAT(matches("[[:^alpha:]]+", "aⅧ1b"), ElementsAre("1"));
  EXPECT_FALSE(Pattern::compile("[[:letter:]]").has_value());
}

TEST(Pattern, KnowsCharactersThatAreNewerThanPcre2) {
  EXPECT_THAT(matches(R"([\p{P}\p{S}]+|\p{L}+)", "🩷abc"), ElementsAre("🩷", "abc"));
  EXPECT_THAT(matches(R"(\p{L}+)", "中\U00031350中"), ElementsAre("中\U00031350中"));
  EXPECT_THAT(matches(R"(\p{Han}+)", "中\U00031350中"), ElementsAre("中\U00031350中"));
  EXPECT_THAT(matches(R"([^\s\p{L}]+|\P{Lo}+)", "\U00031350-"), ElementsAre("-"));
  EXPECT_THAT(matches(R"([\p{L}&&[^\p{Han}]]+)", "a\U00031350b"), ElementsAre("a", "b"));
  EXPECT_THAT(matches(R"(\p{Cn}|\p{C})", "\U00031350"), ElementsAre());
  EXPECT_THAT(matches(R"(\p{Mn})", "\U0001171E"), ElementsAre());  // Mc since Unicode 15
}

TEST(Pattern, QuantifiesQuantifiers) {
  EXPECT_THAT(matches(R"(\p{N}{1,3}+)", "12345a"), ElementsAre("12345"));
  EXPECT_THAT(matches("(?:é|b){2}+", "ébébb"), ElementsAre("ébéb"));
  EXPECT_THAT(matches("a{2}?b", "xaabb"), ElementsAre("aab", "b"));
  EXPECT_THAT(matches("a{,2}b", "xaab"), ElementsAre("aab"));
  EXPECT_THAT(matches("a{3,1}", "aaaaa"), ElementsAre("aaa", "aa"));
  EXPECT_THAT(matches("a{,}|b{ 1}", "a{,}b{ 1}"), ElementsAre("a{,}", "b{ 1}"));
  EXPECT_THAT(matches("x++|a**", "xxaab"), ElementsAre("xx", "aa", ""));
}

TEST(Pattern, AppliesOptionsToTheRestOfTheirGroup) {
  EXPECT_THAT(matches("x(?i)a|b", "xa|B|xB"), ElementsAre("xa", "xB"));
  EXPECT_THAT(matches("(?:a(?i)b)c", "aBCaBc"), ElementsAre("aBc"));
  EXPECT_THAT(matches("(?m)a.b", "a\nb"), ElementsAre("a\nb"));
  EXPECT_THAT(matches("(?x) a +  [ ] # (", "aa "), ElementsAre("aa "));
}

TEST(Pattern, ReadsEscapesOfCharacters) {
  EXPECT_THAT(matches(R"(\v|[\v])", "\n\v"), ElementsAre("\v"));
  EXPECT_THAT(matches(R"([\u4e00-\u9fff]+)", "中。"), ElementsAre("中"));
  EXPECT_THAT(matches(R"(\O)", "\n"), ElementsAre("\n"));
}

TEST(Pattern, RefusesLettersThatEqualSeveralWhereCaseIsIgnored) {
  for (const std::string_view expression : {"(?i)ss", "(?i)ß", "(?i:fi)", "(?i)[à-ÿÀ-ß]", R"((?i)\p{Lu})"}) {
    EXPECT_FALSE(Pattern::compile(expression).has_value()) << expression;
  }
  EXPECT_THAT(matches("(?i:'s|'ll)|é", "'S'LLÉ"), ElementsAre("'S", "'LL"));
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
