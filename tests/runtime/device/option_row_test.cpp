#include "runtime/device/option_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const OptionRow kRows[] = {
    {.name = "target", .otherwise = "small", .choices = "small|large"},
    {.name = "wait-s", .otherwise = "2.5", .kind = OptionKind::kNumber, .least = 0, .most = 1e6},
    {.name = "limit", .kind = OptionKind::kInteger, .least = 1, .most = 100},
    {.name = "retry", .kind = OptionKind::kFlag, .excludes = "folder"},
    {.name = "folder", .kind = OptionKind::kPath},
    {.name = "remote", .kind = OptionKind::kList},
};

Error refusal(const OptionValues& values) { return check_values("some", kRows, values).error(); }

TEST(WordsOf, AreCutAtBars) {
  EXPECT_THAT(words_of(""), IsEmpty());
  EXPECT_THAT(words_of("a"), ElementsAre("a"));
  EXPECT_THAT(words_of("a|b-c"), ElementsAre("a", "b-c"));
}

TEST(CheckValues, TakesWhatTheRowsTake) {
  EXPECT_TRUE(check_values("some", kRows, {}).has_value());
  EXPECT_TRUE(
      check_values("some", kRows,
                   {{"target", "large"}, {"wait-s", "0.5"}, {"limit", "100"}, {"retry", "true"}, {"remote", "a\nb"}})
          .has_value());
}

TEST(CheckValues, NamesTheOptionAndWhatItTakes) {
  EXPECT_EQ(refusal({{"target", "tiny"}}).kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refusal({{"target", "tiny"}}).message,
              HasSubstr("[runtime/backends/some] --target: found 'tiny', expected "
                        "one of small, large"));
  EXPECT_THAT(refusal({{"wait-s", "-1"}}).message,
              HasSubstr("--wait-s: found '-1', expected a number from 0 to 1e+06"));
  EXPECT_THAT(refusal({{"limit", "1.5"}}).message, HasSubstr("expected a whole number from 1 to 100"));
  EXPECT_THAT(refusal({{"limit", "101"}}).message, HasSubstr("expected a whole number from 1 to 100"));
  EXPECT_THAT(refusal({{"retry", "yes"}}).message, HasSubstr("expected true or false"));
  EXPECT_THAT(refusal({{"folder", ""}}).message, HasSubstr("expected a path"));
}

TEST(CheckValues, RefusesAnOptionOfAnotherBackend) {
  EXPECT_THAT(refusal({{"colour", "red"}}).message,
              HasSubstr("--colour: found an option that this backend does not have, "
                        "expected one of --target, --wait-s"));
  EXPECT_THAT(check_values("plain", {}, {{"colour", "red"}}).error().message, HasSubstr("expected none"));
}

TEST(CheckValues, RefusesOptionsThatExcludeEachOther) {
  EXPECT_THAT(refusal({{"retry", "true"}, {"folder", "f"}}).message, HasSubstr("--retry: found it beside --folder"));
}

TEST(OptionReader, ReadsWhatIsGiven) {
  const OptionValues values = {
      {"target", "large"}, {"wait-s", "7"}, {"limit", "9"}, {"retry", "true"}, {"remote", "a\nb"}};
  const OptionReader options(kRows, values);
  EXPECT_EQ(options.text("target"), "large");
  EXPECT_EQ(options.number("wait-s"), 7.0);
  EXPECT_EQ(options.integer("limit"), 9);
  EXPECT_TRUE(options.flag("retry"));
  EXPECT_THAT(options.list("remote"), ElementsAre("a", "b"));
  EXPECT_TRUE(options.is_given("target"));
}

TEST(OptionReader, TakesTheRowsDefaultForTheRest) {
  const OptionValues none;
  const OptionReader options(kRows, none);
  EXPECT_EQ(options.text("target"), "small");
  EXPECT_EQ(options.number("wait-s"), 2.5);
  EXPECT_EQ(options.integer("limit"), std::nullopt);
  EXPECT_FALSE(options.flag("retry"));
  EXPECT_THAT(options.list("remote"), IsEmpty());
  EXPECT_EQ(options.text("folder"), "");
  EXPECT_FALSE(options.is_given("target"));
}

}  // namespace
}  // namespace lockstep::device
