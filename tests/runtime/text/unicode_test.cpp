#include "runtime/text/unicode.h"

#include <gtest/gtest.h>

namespace lockstep::text {
namespace {

std::string assemble(std::string_view bytes) {
  std::string whole;
  Utf8Assembler at_once;
  at_once.put(bytes, whole);
  at_once.finish(whole);
  std::string pieced;
  Utf8Assembler one_by_one;
  for (const char byte : bytes) one_by_one.put({&byte, 1}, pieced);
  one_by_one.finish(pieced);
  EXPECT_EQ(pieced, whole);
  return whole;
}

TEST(Utf8Assembler, KeepsWellFormedTextAsItIs) { EXPECT_EQ(assemble("aé字😀\x00z"), std::string_view("aé字😀\x00z")); }

TEST(Utf8Assembler, ReplacesEachMaximalPartOfACharacter) {
  EXPECT_EQ(assemble("a\xC3z"), "a\uFFFDz");
  EXPECT_EQ(assemble("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(assemble("\xE5\xAD\xE5\xAD\x97"), "\uFFFD字");
  EXPECT_EQ(assemble("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(assemble("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(assemble("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
}

TEST(FindInvalidUtf8, PointsAtTheFirstByteThatDoesNotFit) {
  EXPECT_EQ(find_invalid_utf8("aé字😀"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("aé\xFFz"), 3u);
  EXPECT_EQ(find_invalid_utf8("a\xF0\x9F\x98"), 1u);
}

TEST(ToNormalForm, ComposesAndDecomposes) {
  EXPECT_EQ(to_normal_form("e\u0301\u212b", NormalForm::kNfc), "\u00e9\u00c5");
  EXPECT_EQ(to_normal_form("\u00e9", NormalForm::kNfd), "e\u0301");
  EXPECT_EQ(to_normal_form("\ufb01\u00bd\u2460", NormalForm::kNfkc), "fi1\u20442\u0031");
  EXPECT_EQ(to_normal_form("\uac01", NormalForm::kNfkd), "\u1100\u1161\u11a8");
}

TEST(ToNormalForm, OrdersARunOfAMillionMarksInPassing) {
  std::string marks = "a";
  for (int i = 0; i < 500'000; ++i) marks += "\u0301\u0323";  // above, below: every pair is out of order
  const std::string ordered = to_normal_form(marks, NormalForm::kNfd);
  EXPECT_EQ(ordered.size(), marks.size());
  EXPECT_EQ(ordered.substr(0, 5), "a\u0323\u0323");
}

TEST(Properties, CountUnicodeNumeralsAndWhiteSpace) {
  for (const char32_t c : {U'0', U'½', U'²', U'Ⅷ', U'٣', U'①'}) EXPECT_TRUE(is_numeric(c)) << static_cast<int>(c);
  for (const char32_t c : {U'a', U'一', U' '}) EXPECT_FALSE(is_numeric(c)) << static_cast<int>(c);
  for (const char32_t c : {U' ', U'\t', U'\u00a0', U'\u3000', U'\u0085'}) EXPECT_TRUE(is_white_space(c));
  for (const char32_t c : {U'\u180e', U'\u200b', U'\ufeff'}) EXPECT_FALSE(is_white_space(c));
}

TEST(Properties, AreThoseOfTheTokenizersPackage) {
  EXPECT_TRUE(is_numeric(U'\U00011DE0'));  // newer than Unicode 14
  EXPECT_TRUE(is_word(U'\U00031350'));
  EXPECT_EQ(to_lower("\u1c89"), "\u1c8a");
  for (const char32_t c : {U'\u061d', U'\u2e43'}) EXPECT_FALSE(is_punctuation(c));  // newer than its own table
  for (const char32_t c : {U'\u061b', U'\u166d', U'$'}) EXPECT_TRUE(is_punctuation(c));
  EXPECT_FALSE(is_accent(U'\u0898'));
  EXPECT_TRUE(is_accent(U'\u0301'));
  for (const std::string_view c : {"\u32ff", "\U0001E030"}) EXPECT_EQ(to_normal_form(c, NormalForm::kNfkc), c);
}

}  // namespace
}  // namespace lockstep::text
