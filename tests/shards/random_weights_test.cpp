#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "shards/weights.h"

namespace lockstep::shards {
namespace {

using ::testing::Each;

constexpr int64_t kRows = 5, kColumns = 5000;  // more than one block, and no multiple of a vector

std::vector<std::byte> read(const std::string& tensor, const Shape& whole, const std::vector<Range>& ranges,
                            DType dtype) {
  size_t elements = 1;
  for (const Range& range : ranges) elements *= static_cast<size_t>(range.size());
  std::vector<std::byte> bytes(elements * size_of(dtype));
  EXPECT_TRUE(RandomWeights().read(tensor, whole, ranges, dtype, bytes).has_value());
  return bytes;
}

std::vector<float> floats(const std::string& tensor, const Shape& whole, const std::vector<Range>& ranges) {
  const auto bytes = read(tensor, whole, ranges, DType::kFloat32);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(RandomWeights, AreTheSameInEverySlice) {
  const Shape whole{kRows, kColumns};
  const auto all = floats("w", whole, {{0, kRows}, {0, kColumns}});
  const auto part = floats("w", whole, {{1, 4}, {777, 4123}});
  for (int64_t row = 1; row < 4; ++row) {
    for (int64_t column = 777; column < 4123; ++column) {
      const auto at = static_cast<size_t>((row - 1) * (4123 - 777) + column - 777);
      ASSERT_EQ(part[at], all[static_cast<size_t>(row * kColumns + column)]) << row << ", " << column;
    }
  }
}

TEST(RandomWeights, OfOneElementAreThoseOfTheWholeTensor) {
  const Shape whole{kRows, 100};
  const auto all = floats("w", whole, {{0, kRows}, {0, 100}});
  const auto rounded = read("w", whole, {{0, kRows}, {0, 100}}, DType::kBFloat16);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < 100; ++column) {
      const std::vector<Range> one = {{row, row + 1}, {column, column + 1}};
      const auto at = static_cast<size_t>(row * 100 + column);
      ASSERT_EQ(floats("w", whole, one).front(), all[at]) << row << ", " << column;
      const auto single = read("w", whole, one, DType::kBFloat16);
      ASSERT_EQ(std::memcmp(single.data(), rounded.data() + 2 * at, 2), 0) << row << ", " << column;
    }
  }
}

TEST(RandomWeights, AreRoundedToTheTypeThatWasAskedFor) {
  const Shape whole{kRows, kColumns};
  const std::vector<Range> all = {{0, kRows}, {0, kColumns}};
  const auto exact = read("w", whole, all, DType::kFloat32);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<std::byte> rounded(exact.size() / 2);
    convert_elements(exact.data(), DType::kFloat32, rounded.data(), dtype, rounded.size() / 2);
    EXPECT_EQ(read("w", whole, all, dtype), rounded) << to_string(dtype);
  }
}

TEST(RandomWeights, DifferBetweenTensorsRowsAndColumns) {
  const Shape whole{kRows, kColumns};
  const auto row = floats("a", whole, {{0, 1}, {0, kColumns}});
  EXPECT_NE(row, floats("a", whole, {{1, 2}, {0, kColumns}}));
  EXPECT_NE(row, floats("b", whole, {{0, 1}, {0, kColumns}}));
  EXPECT_NE(row[0], row[1]);
}

// Uniform in ±√(3 / width): mean 0 and variance 1 / width. 25,000 draws: the mean is off by less than 4 standard
// deviations (4 / √25000 of one), the variance by less than 5 % (its standard deviation is 0.6 %).
TEST(RandomWeights, KeepTheScaleOfTheirInput) {
  const auto values = floats("w", Shape{kRows, kColumns}, {{0, kRows}, {0, kColumns}});
  const double deviation = 1 / std::sqrt(static_cast<double>(kColumns));
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0.0, 4 * deviation / std::sqrt(count));
  EXPECT_NEAR(squares / count / (deviation * deviation), 1.0, 0.05);
  EXPECT_THAT(floats("norm", Shape{64}, {{0, 64}}), Each(::testing::FloatNear(1.0f, 0.1f)));
}

}  // namespace
}  // namespace lockstep::shards
