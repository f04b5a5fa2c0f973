#include "launcher/commands/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string failure(std::string_view json) {
  const auto result = parse_ids(json, "rows.json");
  if (result.has_value()) return "no failure";
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
  return result.error().message;
}

TEST(IdsFile, ReadsRaggedRows) {
  const auto rows = parse_ids("[[1,2,3],[4]]", "rows.json").value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(rows[1].ids, ElementsAre(4));
}

TEST(IdsFile, StripsPaddingOnEitherSide) {
  const auto rows =
      parse_ids(R"([{"ids":[0,0,5,6],"mask":[0,0,1,1]},{"ids":[7,8,0],"mask":[1,1,0]},{"ids":[9]}])", "rows.json")
          .value();
  EXPECT_THAT(rows[0].ids, ElementsAre(5, 6));
  EXPECT_THAT(rows[1].ids, ElementsAre(7, 8));
  EXPECT_THAT(rows[2].ids, ElementsAre(9));
}

TEST(IdsFile, StripsWhatIsMaskedInsideAndCountsIt) {
  const auto rows =
      parse_ids(R"([{"ids":[0,5,9,6,8,8,7,0,0],"mask":[0,1,0,1,0,0,1,0,0]},{"ids":[7,8,0],"mask":[1,1,0]}])",
                "rows.json")
          .value();
  EXPECT_THAT(rows[0].ids, ElementsAre(5, 6, 7));
  EXPECT_EQ(rows[0].masked_inside, 3);
  EXPECT_EQ(rows[1].masked_inside, 0);
}

TEST(IdsFile, NamesTheRowThatIsWrong) {
  EXPECT_THAT(failure("[[1],[]]"), HasSubstr("row 1: found no tokens"));
  EXPECT_THAT(failure("[[1],[-2]]"), HasSubstr("row 1: found -2"));
  EXPECT_THAT(failure("[[1.5]]"), HasSubstr("row 0: found 1.5"));
  EXPECT_THAT(failure("[[\"a\"]]"), HasSubstr("row 0"));
  EXPECT_THAT(failure("[[99999999999]]"), HasSubstr("row 0"));
  EXPECT_THAT(failure("[3]"), HasSubstr("row 0"));
  EXPECT_THAT(failure(R"([{"mask":[1]}])"), HasSubstr("no \"ids\""));
  EXPECT_THAT(failure(R"([{"ids":[1,2],"mask":[1]}])"), HasSubstr("mask of 1 entries"));
  EXPECT_THAT(failure(R"([{"ids":[1,2],"mask":[0,2]}])"), HasSubstr("mask of 0 and 1"));
  EXPECT_THAT(failure(R"([{"ids":[1,2],"mask":[0,0]}])"), HasSubstr("no tokens"));
}

TEST(IdsFile, SaysWhenTheFileIsNotRows) {
  EXPECT_THAT(failure("{}"), HasSubstr("expected a JSON array of rows"));
  EXPECT_THAT(failure("[[1],"), HasSubstr("not JSON"));
  EXPECT_THAT(failure(""), HasSubstr("not JSON"));
}

TEST(IdsFile, IsReadFromItsPathAndMissedByName) {
  const auto missing = read_prompts({.ids_file = "/nonexistent/rows.json"}, nullptr, text::SpecialTokens::kAdd, {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent/rows.json"));
}

TEST(CheckPrompts, RefusesIdsOutsideTheVocabularyAndPromptsThatDoNotFit) {
  const std::vector<Prompt> prompts = {{.ids = {1, 2}}, {.ids = {3, 300, 5}}};
  EXPECT_TRUE(check_prompts(prompts, 301, 3).has_value());
  const auto outside = check_prompts(prompts, 300, 3);
  ASSERT_FALSE(outside.has_value());
  EXPECT_THAT(outside.error().message, HasSubstr("prompt 1 row 1: found token id 300"));
  const auto long_prompt = check_prompts(prompts, 301, 2);
  ASSERT_FALSE(long_prompt.has_value());
  EXPECT_EQ(long_prompt.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(long_prompt.error().message, HasSubstr("found 3 tokens, expected at most 2"));
}

}  // namespace
}  // namespace lockstep::launcher
