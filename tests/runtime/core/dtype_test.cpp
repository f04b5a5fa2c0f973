#include "runtime/core/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of 16 bits read as sign, exponent and fraction: IEEE 754-2019, section 3.4.
double value_of(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * kInfinity : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

/// For both formats, every bit pattern widens to its value and narrows back to itself (a NaN to a NaN).
template <typename Narrow, typename ToNarrow>
void expect_all_patterns_round_trip(int exponent_bits, ToNarrow to_narrow) {
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    const float widened = to_float(Narrow{bits});
    const double expected = value_of(bits, exponent_bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << pattern;
      ASSERT_TRUE(std::isnan(to_float(to_narrow(widened)))) << pattern;
    } else {
      ASSERT_EQ(static_cast<double>(widened), expected) << pattern;
      ASSERT_EQ(to_narrow(widened).bits, bits) << pattern;
    }
  }
}

TEST(Float16, RoundTripsEveryBitPattern) { expect_all_patterns_round_trip<Float16>(5, to_float16); }
TEST(BFloat16, RoundTripsEveryBitPattern) { expect_all_patterns_round_trip<BFloat16>(8, to_bfloat16); }

/// Between two neighbours of the format: the midpoint goes to the even one, one f32 step away from it goes to the
/// nearer one.
template <typename Narrow, typename ToNarrow>
void expect_rounding_to_nearest_even(uint16_t largest_finite, ToNarrow to_narrow) {
  for (uint16_t bits = 0; bits < largest_finite; ++bits) {
    const auto above = static_cast<uint16_t>(bits + 1);
    const double middle =
        (static_cast<double>(to_float(Narrow{bits})) + static_cast<double>(to_float(Narrow{above}))) / 2;
    const auto midpoint = static_cast<float>(middle);
    if (static_cast<double>(midpoint) != middle) continue;  // f32 has no such number (bfloat16 subnormals)
    const uint16_t even = bits % 2 == 0 ? bits : above;
    ASSERT_EQ(to_narrow(midpoint).bits, even) << bits;
    ASSERT_EQ(to_narrow(-midpoint).bits, even | 0x8000) << bits;
    ASSERT_EQ(to_narrow(std::nextafter(midpoint, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(to_narrow(std::nextafter(midpoint, kInfinity)).bits, above) << bits;
  }
}

TEST(Float16, RoundsToNearestEven) { expect_rounding_to_nearest_even<Float16>(0x7bff, to_float16); }
TEST(BFloat16, RoundsToNearestEven) { expect_rounding_to_nearest_even<BFloat16>(0x7f7f, to_bfloat16); }

TEST(Float16, BecomesInfinityFromHalfAStepAboveItsLargest) {
  EXPECT_EQ(to_float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_float16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(to_float16(kInfinity).bits, 0x7c00);
}

TEST(BFloat16, KeepsASignallingNaNANaN) {
  const auto signalling = std::bit_cast<float>(0x7f800001u);  // its upper half alone would be infinity
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(signalling))));
}

TEST(DType, KnowsItsNamesAndSizes) {
  const DType all[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32, DType::kUInt8, DType::kInt8};
  const size_t sizes[] = {4, 2, 2, 4, 1, 1};
  for (size_t i = 0; i < std::size(all); ++i) {
    EXPECT_EQ(dtype_from_short_name(to_string(all[i])), all[i]);
    EXPECT_EQ(size_of(all[i]), sizes[i]);
    EXPECT_EQ(is_float(all[i]), i < 3);
  }
  EXPECT_EQ(dtype_from_short_name("float32"), std::nullopt);
}

TEST(DType, ReadsTheSpellingOfConfigFilesForFloatingPointOnly) {
  EXPECT_EQ(dtype_from_config_name("bfloat16").value(), DType::kBFloat16);
  const auto refused = dtype_from_config_name("int32");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("found \"int32\", expected float32, bfloat16 or float16"));
}

TEST(ConvertElements, GoesBetweenAllFloatingPointTypes) {
  const std::vector<float> numbers{1.0f, -2.5f, 1.0f + 0x1p-10f, 0.0f};
  const DType types[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (DType src_type : types) {
    std::array<std::byte, 16> src{};
    convert_elements(reinterpret_cast<const std::byte*>(numbers.data()), DType::kFloat32, src.data(), src_type, 4);
    for (DType dst_type : types) {
      std::array<std::byte, 16> dst{};
      std::array<float, 4> back{};
      convert_elements(src.data(), src_type, dst.data(), dst_type, 4);
      convert_elements(dst.data(), dst_type, reinterpret_cast<std::byte*>(back.data()), DType::kFloat32, 4);
      const bool keeps_bits = src_type != DType::kBFloat16 && dst_type != DType::kBFloat16;
      EXPECT_EQ(back[1], -2.5f);
      EXPECT_EQ(back[2], keeps_bits ? 1.0f + 0x1p-10f : 1.0f) << to_string(src_type) << " to " << to_string(dst_type);
    }
  }
  std::array<std::byte, 4> integers{};
  EXPECT_THROW(convert_elements(integers.data(), DType::kInt32, integers.data(), DType::kFloat32, 1), CheckFailure);
}

}  // namespace
}  // namespace lockstep
