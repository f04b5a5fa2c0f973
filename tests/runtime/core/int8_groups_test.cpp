#include "runtime/core/int8_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<Range> all_of(const ColumnGroups& groups) {
  std::vector<Range> ranges;
  for (int64_t i = 0; i < groups.count(); ++i) ranges.push_back(groups.of(i));
  return ranges;
}

TEST(ColumnGroups, CutEachLeafByItself) {
  EXPECT_THAT(all_of({.columns = 25, .leaf = 10, .width = 4}),
              ElementsAre(Range{0, 4}, Range{4, 8}, Range{8, 10}, Range{10, 14}, Range{14, 18}, Range{18, 20},
                          Range{20, 24}, Range{24, 25}));
  EXPECT_THAT(all_of({.columns = 6, .leaf = 3, .width = 128}), ElementsAre(Range{0, 3}, Range{3, 6}));
  EXPECT_EQ((ColumnGroups{.columns = 0, .leaf = 3, .width = 4}.count()), 0);
}

TEST(ColumnGroups, TakeAnIntegerForEachElementAndAScaleForEachGroup) {
  EXPECT_EQ(int8_bytes(3, {.columns = 10, .leaf = 10, .width = 4}), 3 * (10 + 3 * 4));
}

TEST(ToInt8, MakesTheNearestMultiplesOfTheScale) {
  const std::vector<float> values{-254.0f, 127.0f, 3.0f, 1.0f, 5.0f, 0.9f};  // scale 2: half-way values go to even
  std::vector<int8_t> integers(values.size());
  EXPECT_EQ(to_int8(values.data(), 6, integers.data()), 2.0f);
  EXPECT_THAT(integers, ElementsAre(-127, 64, 2, 0, 2, 0));
}

/// A group as wide as the row is one scale for each output: max |w| / 127, clamp(round(w / scale)).
TEST(ToInt8, RebuildsARowOfAnOutputWithinHalfItsScaleAndInHalfTheBytesOfBfloat16) {
  constexpr int64_t kColumns = 768;
  std::vector<float> row(kColumns);
  for (int64_t i = 0; i < kColumns; ++i) {
    row[static_cast<size_t>(i)] = 0.03f * std::sin(static_cast<float>(i * i)) * static_cast<float>(i % 7);
  }
  std::vector<int8_t> integers(row.size());
  const float scale = to_int8(row.data(), kColumns, integers.data());
  float most = 0.0f;
  for (const float w : row) most = std::max(most, std::abs(w));
  EXPECT_EQ(scale, most / 127.0f);
  for (size_t i = 0; i < row.size(); ++i) {
    EXPECT_LE(std::abs(integers[i]), 127);
    EXPECT_LE(std::abs(integers[i] * double(scale) - row[i]), scale / 2.0 * (1 + 1e-5)) << i;
  }
  const ColumnGroups whole_row{.columns = kColumns, .leaf = kColumns, .width = kColumns};
  EXPECT_EQ(int8_bytes(1, whole_row), kColumns + 4);
  EXPECT_LT(int8_bytes(1, whole_row), 0.51 * 2 * kColumns);
}

TEST(ToInt8, MarksAGroupThatHoldsNoNumber) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> values{1.0f, odd, 2.0f};
    std::vector<int8_t> integers(3, 77);
    EXPECT_TRUE(std::isnan(to_int8(values.data(), 3, integers.data())));
    EXPECT_THAT(integers, Each(0));
  }
}

TEST(ToInt8, TakesTheSmallestForZerosAndTheLargestAsTheyAre) {
  const std::vector<float> tiny{1e-38f, -1e-40f};
  std::vector<int8_t> integers(2, 77);
  EXPECT_EQ(to_int8(tiny.data(), 2, integers.data()), 0.0f);
  EXPECT_THAT(integers, Each(0));
  const std::vector<float> huge{std::numeric_limits<float>::max(), -std::numeric_limits<float>::max() / 2};
  EXPECT_GT(to_int8(huge.data(), 2, integers.data()), 1e36f);
  EXPECT_THAT(integers, ElementsAre(127, -64));
}

}  // namespace
}  // namespace lockstep
