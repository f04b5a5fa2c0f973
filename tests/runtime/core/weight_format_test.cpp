#include "runtime/core/weight_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

std::vector<WeightFormat> every_format() {
  std::vector<WeightFormat> formats;
  for (const auto& [kind, bits] : {std::pair{CodeKind::kInteger, 4}, std::pair{CodeKind::kInteger, 8},
                                   std::pair{CodeKind::kE2M1, 4}, std::pair{CodeKind::kE4M3, 8}}) {
    for (const GroupOffset offset : {GroupOffset::kNone, GroupOffset::kZeros, GroupOffset::kMinima}) {
      for (const ScaleType scale :
           {ScaleType::kFloat32, ScaleType::kBFloat16, ScaleType::kFloat16, ScaleType::kPowerOfTwo}) {
        formats.push_back({.kind = kind, .bits = bits, .group = 32, .offset = offset, .scale = scale});
      }
    }
  }
  return formats;
}

TEST(WeightFormat, HasATextFormThatParsesBack) {
  for (const WeightFormat& format : every_format()) {
    EXPECT_EQ(weight_format_from_text(to_string(format)), format) << to_string(format);
  }
  EXPECT_EQ(to_string(WeightFormat{.offset = GroupOffset::kZeros, .scale = ScaleType::kFloat16}), "q4g32z.f16");
}

TEST(WeightFormat, RejectsOtherTexts) {
  for (const char* text : {"", "q4", "q4g", "q4g0", "q4g-1", "q5g32", "q4g32x", "q4g32zm", "q4g32.f64", "q4g032",
                           "bf16", "q4g99999999999999999999"}) {
    EXPECT_EQ(weight_format_from_text(text), std::nullopt) << text;
  }
}

TEST(WeightFormat, DecodesIntegersBelowAndAboveTheirZero) {
  EXPECT_EQ(decode({}, 0, 0.5f, 0.0f), -4.0f);
  EXPECT_EQ(decode({.bits = 8}, 255, 0.5f, 0.0f), 63.5f);
  EXPECT_EQ(decode({.offset = GroupOffset::kZeros}, 15, 0.25f, 16.0f), -0.25f);
  EXPECT_EQ(decode({.offset = GroupOffset::kMinima}, 15, 0.25f, -1.0f), 2.75f);
}

// Values of float8_e4m3fn: exponent bias 7, subnormals below 2^-6.
TEST(WeightFormat, DecodesFloatsOfEightBits) {
  EXPECT_EQ(e4m3_value(0x00), 0.0f);
  EXPECT_TRUE(std::signbit(e4m3_value(0x80)));
  EXPECT_EQ(e4m3_value(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3_value(0x08), 0x1p-6f);
  EXPECT_EQ(e4m3_value(0x38), 1.0f);
  EXPECT_EQ(e4m3_value(0x7e), 448.0f);
  EXPECT_EQ(e4m3_value(0xfe), -448.0f);
  EXPECT_TRUE(std::isnan(e4m3_value(0x7f)));
  EXPECT_TRUE(std::isnan(e4m3_value(0xff)));
}

TEST(WeightFormat, DecodesFloatsOfFourBits) {
  EXPECT_EQ(decode({.kind = CodeKind::kE2M1}, 0x7, 2.0f, 0.0f), 12.0f);
  EXPECT_EQ(decode({.kind = CodeKind::kE2M1}, 0x9, 2.0f, 0.0f), -1.0f);
}

TEST(WeightFormat, CountsWhatAGroupHasBesideItsCodes) {
  EXPECT_EQ(overhead_bits({}), 32);
  EXPECT_EQ(overhead_bits({.scale = ScaleType::kPowerOfTwo}), 8);
  EXPECT_EQ(overhead_bits({.offset = GroupOffset::kZeros, .scale = ScaleType::kFloat16}), 24);
  EXPECT_EQ(overhead_bits({.offset = GroupOffset::kMinima, .scale = ScaleType::kFloat16}), 32);
}

TEST(Quantise, ChoosesCodesWhoseErrorIsAtMostTheRoundingOfTheNaiveScale) {
  for (const ScaleType scale_type : {ScaleType::kFloat32, ScaleType::kBFloat16, ScaleType::kFloat16}) {
    const WeightFormat format{.scale = scale_type};
    std::vector<float> values;
    for (int i = 0; i < 32; ++i) values.push_back(std::sin(static_cast<float>(i * i)) * 0.03f);
    std::vector<uint8_t> codes(32);
    const float scale = quantise(format, values.data(), 32, codes.data());
    EXPECT_EQ(round_to(scale_type, scale), scale);
    float error = 0.0f, naive = 0.0f;
    for (size_t i = 0; i < 32; ++i) {
      const float off = values[i] - decode(format, codes[i], scale, 0.0f);
      error += off * off;
      naive += std::pow(0.03f / 7.0f / 2.0f, 2.0f);
    }
    EXPECT_LT(error, naive);
  }
}

// Half a step of the coarsest grid of each kind: 1/15 of the range, or 1/6 of the magnitude with e2m1 (from 4 to 6).
TEST(Quantise, ComesCloseToTheValuesInEveryFormat) {
  std::vector<float> values;
  for (int i = 0; i < 32; ++i) values.push_back(std::cos(static_cast<float>(3 * i * i + 1)) * 0.5f + 0.1f);
  for (const WeightFormat& format : every_format()) {
    const bool is_integer = format.kind == CodeKind::kInteger;
    if (is_integer && format.scale == ScaleType::kPowerOfTwo) continue;  // exists in no file
    if (!is_integer && format.offset != GroupOffset::kNone) continue;    // nor do floats with offsets
    std::vector<uint8_t> codes(values.size());
    const GroupScale made = quantise_group(format, values.data(), 32, codes.data());
    const float coarse = format.bits == 4 ? (is_integer ? 1.2f / 15 : 1.2f / 6) : 1.2f / 24;
    const float rounding = format.scale == ScaleType::kPowerOfTwo ? 2.0f : 1.02f;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(decode(format, codes[i], made.scale, made.offset), values[i], coarse * rounding) << to_string(format);
    }
  }
}

TEST(Quantise, GivesWhatIsNotFiniteTheScaleNaN) {
  const std::vector<float> values{1.0f, INFINITY, 2.0f, -1.0f};
  std::vector<uint8_t> codes(4);
  EXPECT_TRUE(std::isnan(quantise({.bits = 8}, values.data(), 4, codes.data())));
  EXPECT_TRUE(std::isnan(quantise({.bits = 4}, values.data(), 4, codes.data())));
}

TEST(Quantise, KeepsZerosExact) {
  const std::vector<float> values(8, 0.0f);
  std::vector<uint8_t> codes(8, 1);
  for (const int bits : {4, 8}) {
    const WeightFormat format{.bits = bits};
    const float scale = quantise(format, values.data(), 8, codes.data());
    for (const uint8_t code : codes) EXPECT_EQ(decode(format, code, scale, 0.0f), 0.0f);
  }
}

}  // namespace
}  // namespace lockstep
