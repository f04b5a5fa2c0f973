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

TEST(PartsOfAChunk, AreHalvesAndThreeQuartersOfAtLeast16Rows) {
  EXPECT_THAT(parts_of_chunk(256), ElementsAre(16, 24, 32, 48, 64, 96, 128, 192, 256));
  EXPECT_THAT(parts_of_chunk(50), ElementsAre(25, 37, 50));
  EXPECT_THAT(parts_of_chunk(31), ElementsAre(31));
  EXPECT_THAT(parts_of_chunk(1), ElementsAre(1));
}

TEST(PrefillSizes, AreAGraphForEachLengthAndForEachNumberOfRows) {
  using Sizes = std::vector<PrefillSize>;
  const std::vector<int64_t> lengths = {128, 512, 2048};
  EXPECT_EQ(prefill_sizes(context_buckets(lengths), lengths), (Sizes{{64, 128}, {256, 512}, {1024, 2048}}));
  EXPECT_EQ(prefill_sizes({64}, lengths), (Sizes{{64, 128}, {64, 512}, {64, 2048}}));
  EXPECT_EQ(prefill_sizes({1}, lengths), (Sizes{{1, 128}, {1, 512}, {1, 2048}}));  // token by token
  EXPECT_EQ(prefill_sizes({200, 1500}, lengths), (Sizes{{200, 512}, {200, 2048}, {1500, 2048}}));
  EXPECT_EQ(prefill_sizes({16, 4096}, {64}), (Sizes{{16, 64}, {4096, 64}}));  // of several slots
  EXPECT_EQ(prefill_sizes({8, 16, 32}, {512}), (Sizes{{8, 512}, {16, 512}, {32, 512}}));
}

TEST(PrefillSizes, FitEveryChunk) {
  const std::vector<int64_t> lengths = token_buckets(3000);
  for (const std::vector<int64_t>& rows : {context_buckets(lengths), {7, 256}, {2999}, {1, 2000}}) {
    const std::vector<PrefillSize> sizes = prefill_sizes(rows, lengths);
    for (int64_t chunk = 1; chunk <= rows.back(); chunk += 13) {
      for (int64_t end = chunk; end <= 3000; end += 17) {
        const PrefillSize& size = sizes[smallest_prefill(sizes, {chunk, end})];
        EXPECT_GE(size.rows, chunk);
        EXPECT_GE(size.bound, end);
      }
    }
  }
}

TEST(SmallestPrefill, HasFewRowsBeforeItSeesLittle) {
  const std::vector<PrefillSize> sizes = {{64, 128}, {64, 2048}, {1024, 2048}};
  EXPECT_EQ(smallest_prefill(sizes, {60, 60}), 0u);
  EXPECT_EQ(smallest_prefill(sizes, {60, 500}), 1u);
  EXPECT_EQ(smallest_prefill(sizes, {65, 65}), 2u);
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
