#include "launcher/measure/bench/suite/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launcher::suite {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Documents kRound = {
    {"a",
     R"({"speed": 12, "list": [{"x": 1, "y": 10}, {"x": 2, "y": 20}], "sizes": [{"n": 4, "t": 7}, {"n": 8, "t": 9}]})"},
    {"b", R"({"speed": 8, "none": 0, "text": "12"})"}};

std::vector<double> values(const Formula& formula) { return values_of(formula, kRound).value(); }

TEST(SuiteFigures, DivideTheProductsOfWhatSidesReported) {
  EXPECT_THAT(values({.over = {{"a", "/speed"}}, .under = {{"b", "/speed"}}}), ElementsAre(1.5));
  EXPECT_THAT(values({.over = {{"a", "/speed"}, {"b", "/speed"}}, .under = {{"a", "/speed"}}, .factor = 0.5}),
              ElementsAre(4.0));
}

TEST(SuiteFigures, TakeListsElementByElement) {
  EXPECT_THAT(values({.over = {{"a", "/list/*/y"}}, .under = {{"a", "/list/*/x"}}}), ElementsAre(10.0, 10.0));
  EXPECT_THAT(values({.over = {{"a", "/list/*/y"}, {"b", "/speed"}}}), ElementsAre(80.0, 160.0));
}

TEST(SuiteFigures, ChooseAnElementByANumberInIt) {
  EXPECT_THAT(values({.over = {{"a", "/sizes/[n=8]/t"}}}), ElementsAre(9.0));
  EXPECT_FALSE(values_of({.over = {{"a", "/sizes/[n=16]/t"}}}, kRound).has_value());
}

TEST(SuiteFigures, SayWhichNumberIsNotThere) {
  const auto missing = values_of({.over = {{"b", "/replay/decode_s"}}}, kRound);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("the result of \"b\" has no number at /replay/decode_s"));
  EXPECT_FALSE(values_of({.over = {{"b", "/text"}}}, kRound).has_value());
  EXPECT_FALSE(values_of({.over = {{"c", "/speed"}}}, kRound).has_value());
  EXPECT_EQ(values_of({.over = {{"a", "/speed"}}, .under = {{"b", "/none"}}}, kRound).error().kind,
            ErrorKind::kInvalidArgument);
}

TEST(SuiteFigures, MedianAndQuartilesLieBetweenValuesWhereTheyMust) {
  const PairSpread odd = pair_spread({5, 1, 3, 2, 4});
  EXPECT_THAT((std::vector{odd.min, odd.lower, odd.median, odd.upper, odd.max}), ElementsAre(1, 2, 3, 4, 5));
  const PairSpread even = pair_spread({4, 1, 2, 3});
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.lower, 1.75);
  EXPECT_DOUBLE_EQ(pair_spread({7}).upper, 7);
}

TEST(SuiteFigures, AreJudgedByFloorAndAimInEitherDirection) {
  const Goal more{.floor = 0.9, .aim = 0.96}, less{.better = Better::kLower, .floor = 0.5, .aim = 0.3};
  EXPECT_EQ(judge(more, 0.96), Verdict::kAim);
  EXPECT_EQ(judge(more, 0.95), Verdict::kFloor);
  EXPECT_EQ(judge(more, 0.89), Verdict::kBelow);
  EXPECT_EQ(judge(less, 0.29), Verdict::kAim);
  EXPECT_EQ(judge(less, 0.5), Verdict::kFloor);
  EXPECT_EQ(judge(less, 0.51), Verdict::kBelow);
  EXPECT_DOUBLE_EQ(of_aim(less, 0.6), 0.5);
  EXPECT_DOUBLE_EQ(of_aim(more, 0.48), 0.5);
}

constexpr auto kOk = ChildRecord::Status::kOk;

ChildRecord child(const std::string& side, int round, const std::string& document) {
  return {.side = side, .round = round, .status = kOk, .document = document};
}

const Goal kRatio{.id = "ratio",
                  .measurement = "m",
                  .floor = 1.0,
                  .aim = 2.0,
                  .figure = {.over = {{"a", "/speed"}}, .under = {{"b", "/speed"}}},
                  .beside = {{.name = "ours", .operand = {"a", "/speed"}, .scale = 0.1, .unit = "tokens/s"}}};
const Measurement kTwoSides{.id = "m", .sides = {{.name = "a"}, {.name = "b"}}, .rounds = 3};

TEST(SuiteRows, PairTheSidesOfARound) {
  const Row row =
      make_row(kRatio, kTwoSides,
               {child("a", 0, R"({"speed": 2})"), child("b", 0, R"({"speed": 1})"), child("a", 1, R"({"speed": 9})"),
                child("b", 1, R"({"speed": 3})"), child("a", 2, R"({"speed": 4})"), child("b", 2, R"({"speed": 4})")});
  EXPECT_THAT(row.pairs, ElementsAre(2, 3, 1));
  EXPECT_EQ(row.verdict, Verdict::kAim);
  EXPECT_THAT(row.reason, IsEmpty());
  EXPECT_THAT(row.beside, ElementsAre(std::pair<std::string, std::string>("ours", "0.4 tokens/s")));
}

TEST(SuiteRows, KeepThePairsThatWereMadeBeforeAProgramFailed) {
  const ChildRecord failed{.side = "b", .round = 1, .status = ChildRecord::Status::kFailed, .reason = "exit code 5"};
  const Row row = make_row(
      kRatio, kTwoSides,
      {child("a", 0, R"({"speed": 2})"), child("b", 0, R"({"speed": 2})"), child("a", 1, R"({"speed": 2})"), failed});
  EXPECT_THAT(row.pairs, ElementsAre(1));
  EXPECT_EQ(row.verdict, Verdict::kFloor);
  EXPECT_EQ(row.reason, "\"b\": exit code 5");
}

TEST(SuiteRows, TellFailedNotAvailableAndMissingApart) {
  ChildRecord refused{.side = "a", .status = ChildRecord::Status::kRefused, .reason = "exit code 2: no such option"};
  EXPECT_EQ(make_row(kRatio, kTwoSides, {refused}).verdict, Verdict::kNotAvailable);
  refused.status = ChildRecord::Status::kFailed;
  EXPECT_EQ(make_row(kRatio, kTwoSides, {refused}).verdict, Verdict::kFailed);
  EXPECT_EQ(make_row(kRatio, kTwoSides, {child("a", 0, "{}"), child("b", 0, "{}")}).verdict, Verdict::kNotAvailable);
  Measurement absent = kTwoSides;
  absent.absence = Absence{.kind = Absence::Kind::kMissing, .reason = "install it"};
  EXPECT_EQ(make_row(kRatio, absent, {}).verdict, Verdict::kMissing);
  EXPECT_EQ(make_row(kRatio, absent, {}).reason, "install it");
}

TEST(SuiteRows, AResultThatSaysWhatIsAbsentIsMissing) {
  const std::string absent = R"({"absent": "no rival is installed"})";
  const Row row = make_row(kRatio, kTwoSides, {child("a", 0, absent), child("b", 0, "{}")});
  EXPECT_EQ(row.verdict, Verdict::kMissing);
  EXPECT_EQ(row.reason, "no rival is installed");
}

}  // namespace
}  // namespace lockstep::launcher::suite
