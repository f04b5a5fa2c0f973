#include "shards/partition/head_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::partition {
namespace {

using ::testing::HasSubstr;

constexpr HeadCounts kSmolLm2{.query = 9, .key_value = 3};

TEST(SplitHeads, GivesEveryQueryHeadToExactlyOneRank) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const auto split = split_heads(kSmolLm2, ranks).value();
    int64_t next = 0;
    for (const RankHeads& rank : split) {
      EXPECT_EQ(rank.query.begin, next);
      EXPECT_GE(rank.query.size(), 9 / ranks);
      EXPECT_LE(rank.query.size(), 9 / ranks + 1);
      next = rank.query.end;
    }
    EXPECT_EQ(next, 9);
  }
}

TEST(SplitHeads, RepeatsAKeyValueHeadThatTwoRanksNeed) {
  const auto split = split_heads(kSmolLm2, /*ranks=*/2).value();
  EXPECT_EQ(split[0].key_value, (Range{0, 2}));
  EXPECT_EQ(split[1].key_value, (Range{1, 3}));
}

TEST(SplitHeads, ReplicatesWhenThereAreMoreRanksThanKeyValueHeads) {
  const auto split = split_heads({.query = 8, .key_value = 2}, /*ranks=*/4).value();
  EXPECT_EQ(split[0].key_value, (Range{0, 1}));
  EXPECT_EQ(split[1].key_value, (Range{0, 1}));
  EXPECT_EQ(split[3].key_value, (Range{1, 2}));
}

TEST(SplitHeads, NamesTheDegreesThatWorkWhenThereAreTooManyRanks) {
  const auto split = split_heads(kSmolLm2, /*ranks=*/10);
  ASSERT_FALSE(split.has_value());
  EXPECT_EQ(split.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(split.error().message, HasSubstr("expected 1 to 9"));
}

TEST(SplitHeads, RefusesHeadsThatDoNotGroup) {
  const auto split = split_heads({.query = 9, .key_value = 2}, /*ranks=*/1);
  ASSERT_FALSE(split.has_value());
  EXPECT_EQ(split.error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::partition
