#include "shards/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::shards {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TokenBuckets, ArePowersOfTwoFrom128AndTheCapacity) {
  EXPECT_THAT(token_buckets(3000), ElementsAre(128, 256, 512, 1024, 2048, 3000));
  EXPECT_THAT(token_buckets(1024), ElementsAre(128, 256, 512, 1024));
  EXPECT_THAT(token_buckets(128), ElementsAre(128));
  EXPECT_THAT(token_buckets(20), ElementsAre(20));
}

TEST(ContextBuckets, AreHalfOfTheTokenBuckets) {
  EXPECT_THAT(context_buckets(token_buckets(3000)), ElementsAre(64, 128, 256, 512, 1024, 1500));
  EXPECT_THAT(context_buckets({1, 2, 3}), ElementsAre(1));
}

TEST(SmallestBucket, IsTheFirstThatFits) {
  const std::vector<int64_t> buckets = token_buckets(1024);
  EXPECT_EQ(buckets[smallest_bucket(buckets, 97)], 128);
  EXPECT_EQ(buckets[smallest_bucket(buckets, 120)], 128);
  EXPECT_EQ(buckets[smallest_bucket(buckets, 128)], 128);
  EXPECT_EQ(buckets[smallest_bucket(buckets, 129)], 256);
  EXPECT_EQ(buckets[smallest_bucket(buckets, 5000)], 1024);
}

TEST(ParseTokenBuckets, ReadsAutoOrAListAndEndsWithTheCapacity) {
  EXPECT_EQ(parse_token_buckets("auto", 3000).value(), token_buckets(3000));
  EXPECT_THAT(parse_token_buckets("100,300", 300).value(), ElementsAre(100, 300));
  EXPECT_THAT(parse_token_buckets("100,300", 512).value(), ElementsAre(100, 300, 512));
}

TEST(ParseTokenBuckets, RefusesWhatIsNoRisingListUpToTheCapacity) {
  for (const auto& [text, hint] : {std::pair("", "auto, or"),
                                   {"12x", "auto, or"},
                                   {"0", "auto, or"},
                                   {",", "auto, or"},
                                   {"200,100", "rise"},
                                   {"100,100", "rise"},
                                   {"100,600", "capacity of 512"}}) {
    const auto refused = parse_token_buckets(text, 512);
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr(hint)) << text;
  }
}

}  // namespace
}  // namespace lockstep::shards
