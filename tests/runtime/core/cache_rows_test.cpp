#include "runtime/core/cache_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/core/weight_format.h"

namespace lockstep {
namespace {

std::vector<float> round_trip(DType dtype, const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<std::byte> row(static_cast<size_t>(row_elements(dtype, count)));
  encode_cache_row(dtype, values.data(), count, row.data());
  std::vector<float> decoded(values.size());
  decode_cache_row(dtype, row.data(), count, decoded.data());
  return decoded;
}

/// The nearest code by trying all; ties to the even one.
uint8_t nearest(float value) {
  uint8_t best = 0;
  for (int code = 0; code < 0x7f; ++code) {
    const float error = std::abs(e4m3_value(static_cast<uint8_t>(code)) - std::abs(value));
    const float least = std::abs(e4m3_value(best) - std::abs(value));
    if (error < least || (error == least && code % 2 == 0)) best = static_cast<uint8_t>(code);
  }
  return static_cast<uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

TEST(ToE4M3, GivesTheNearestCode) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-14.0f, 8.8f);
  for (int i = 0; i < 3000; ++i) {
    const float value = std::min(std::exp2(exponent(random)), 448.0f) * (i % 2 == 0 ? 1.0f : -1.0f);
    EXPECT_EQ(to_e4m3(value), nearest(value)) << value;
  }
}

TEST(ToE4M3, KeepsEveryNumberAndRoundsTiesToEven) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) continue;  // NaN
    EXPECT_EQ(to_e4m3(e4m3_value(static_cast<uint8_t>(code))), code);
    if ((code & 0x7f) == 0x7e) continue;
    const float tie = (e4m3_value(static_cast<uint8_t>(code)) + e4m3_value(static_cast<uint8_t>(code + 1))) / 2;
    EXPECT_EQ(to_e4m3(tie), code % 2 == 0 ? code : code + 1) << code;
  }
}

TEST(CacheRows, ChangeNoValueByMoreThanHalfACode) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const int count : {1, 64, 1024}) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(value));
    const std::vector<float> integers = round_trip(DType::kInt8, values), floats = round_trip(DType::kUInt8, values);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(integers[i], values[i], largest / 253);
      EXPECT_NEAR(floats[i], values[i], std::max(std::abs(values[i]) / 15.9f, largest / 448 * 0x1.1p-10f));
    }
  }
}

TEST(CacheRows, AreNaNWithANaNOrAnInfinity) {
  for (const DType dtype : {DType::kInt8, DType::kUInt8}) {
    for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      for (const float value : round_trip(dtype, {1, wrong, 3})) EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(CacheRows, AreZeroBelowTheLeastMagnitude) {
  for (const DType dtype : {DType::kInt8, DType::kUInt8}) {
    std::vector<std::byte> row(2 + kRowScaleBytes, std::byte{9});
    const float values[] = {0x1p-101f, -0.0f};
    encode_cache_row(dtype, values, 2, row.data());
    EXPECT_EQ(row, std::vector<std::byte>(row.size()));
  }
}

TEST(CacheRows, EndWithTheirScale) {
  std::vector<std::byte> row(2 + kRowScaleBytes);
  const float values[] = {-254.0f, 3.0f};
  encode_cache_row(DType::kInt8, values, 2, row.data());
  float scale = 0;
  std::memcpy(&scale, row.data() + 2, sizeof scale);
  EXPECT_EQ(scale, 2.0f);
  EXPECT_EQ(static_cast<int8_t>(row[0]), -127);
  EXPECT_EQ(static_cast<int8_t>(row[1]), 2);  // 1.5, to even
}

TEST(CacheTypes, HaveNames) {
  for (const CacheType type : {CacheType::kModel, CacheType::kInt8, CacheType::kFp8}) {
    EXPECT_EQ(cache_type_from_text(to_string(type)), type);
  }
  EXPECT_EQ(to_string(CacheType::kFp8), "fp8");
  EXPECT_EQ(cache_type_from_text("int4"), std::nullopt);
  EXPECT_EQ(cache_elements(CacheType::kFp8, DType::kBFloat16), DType::kUInt8);
  EXPECT_EQ(row_elements(cache_elements(CacheType::kModel, DType::kBFloat16), 64), 64);
}

}  // namespace
}  // namespace lockstep
