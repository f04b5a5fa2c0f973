// The kernels over rows, against arithmetic in double precision, on every instruction set and with every tail.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/backends/cpu/kernels/kernels.h"

namespace lockstep::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Rowwise : public ::testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, Rowwise, ::testing::ValuesIn(available_isas()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

template <typename T>
ConstRow from(const std::vector<T>& values, DType dtype) {
  return {reinterpret_cast<const std::byte*>(values.data()), dtype};
}
template <typename T>
Row to(std::vector<T>& values, DType dtype) {
  return {reinterpret_cast<std::byte*>(values.data()), dtype};
}

TEST_P(Rowwise, ConvertsAsTheDefinitionOfTheTypesDoes) {
  std::vector<float> numbers = {0.0f,    -0.0f,     1.0f,       1.00390625f, 1.01171875f, 3.4e38f,  -3.4e38f, 1e-40f,
                                -1e-40f, kInfinity, -kInfinity, kNan,        65504.0f,    65520.0f, 6e-8f,    1e-5f};
  for (int i = 0; i < 1000; ++i) numbers.push_back(std::ldexp(1.0f + static_cast<float>(i) / 777.0f, i % 60 - 30));
  for (size_t count : {size_t{1}, size_t{15}, size_t{16}, size_t{17}, numbers.size()}) {
    std::vector<uint16_t> bf16(count + 1, 0xabcd), f16(count + 1, 0xabcd);
    kernels().convert(from(numbers, DType::kFloat32), to(bf16, DType::kBFloat16), static_cast<int64_t>(count));
    kernels().convert(from(numbers, DType::kFloat32), to(f16, DType::kFloat16), static_cast<int64_t>(count));
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(bf16[i], to_bfloat16(numbers[i]).bits) << numbers[i];
      if (std::isnan(numbers[i])) {
        EXPECT_TRUE(std::isnan(to_float(Float16{f16[i]})));
      } else {
        ASSERT_EQ(f16[i], to_float16(numbers[i]).bits) << numbers[i];
      }
    }
    EXPECT_EQ(bf16[count], 0xabcd);
    EXPECT_EQ(f16[count], 0xabcd);
  }
}

TEST_P(Rowwise, NormalisesRowsOfEveryWidth) {
  for (int64_t count : {1, 3, 15, 16, 17, 31, 100, 576}) {
    std::vector<float> x, w;
    double squares = 0;
    for (int64_t i = 0; i < count; ++i) {
      x.push_back(std::sin(static_cast<float>(i) + 1.0f) * 3.0f);
      w.push_back(1.0f + 0.01f * static_cast<float>(i % 7));
      squares += double{x.back()} * x.back();
    }
    std::vector<float> found(static_cast<size_t>(count));
    kernels().rms_norm(from(x, DType::kFloat32), from(w, DType::kFloat32), to(found, DType::kFloat32), count, 1e-5, {});
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
    // The sum of squares has a relative error of at most count/16 + 4 roundings of 2^-24.
    for (int64_t i = 0; i < count; ++i) EXPECT_NEAR(found[i], w[i] * x[i] * factor, 4e-6) << count;
  }
}

TEST_P(Rowwise, RoundsTheNormBeforeTheWeight) {
  // The inner value is 0.9979, in bfloat16 0.99609375: times 1.5 that rounds to 1.4921875, unrounded it would be 1.5.
  const std::vector<uint16_t> x(2, to_bfloat16(3.0f).bits);
  const std::vector<uint16_t> w(2, to_bfloat16(1.5f).bits);
  std::vector<uint16_t> found(2);
  kernels().rms_norm(from(x, DType::kBFloat16), from(w, DType::kBFloat16), to(found, DType::kBFloat16), 2, 0.0379, {});
  EXPECT_EQ(to_float(BFloat16{found[0]}), 1.4921875f);
}

TEST_P(Rowwise, AddsTheOffsetToTheWeightAndRoundsOnce) {
  // 1.5 · 0.9979 is 1.4969, which bfloat16 rounds to 1.5; rounded before the weight it would be 1.4921875.
  const std::vector<uint16_t> x(2, to_bfloat16(3.0f).bits);
  const std::vector<uint16_t> w(2, to_bfloat16(0.5f).bits);
  std::vector<uint16_t> found(2);
  kernels().rms_norm(from(x, DType::kBFloat16), from(w, DType::kBFloat16), to(found, DType::kBFloat16), 2, 0.0379,
                     {.offset = 1.0f, .rounds = false});
  EXPECT_EQ(to_float(BFloat16{found[0]}), 1.5f);
}

/// Rows around `mean`, whose spread is about 1.
std::vector<float> spread_around(float mean, int64_t count) {
  std::vector<float> x;
  for (int64_t i = 0; i < count; ++i) x.push_back(mean + static_cast<float>((i * 7919) % 1009) / 300.0f - 1.7f);
  return x;
}

TEST_P(Rowwise, CentresRowsOfEveryWidthAndMean) {
  for (const float mean : {0.0f, 3.0f, -1000.0f}) {
    for (int64_t count : {3, 15, 16, 17, 31, 100, 768, 4096}) {
      const std::vector<float> x = spread_around(mean, count);
      std::vector<float> w, b, found(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) w.push_back(0.5f + static_cast<float>(i % 3));
      for (int64_t i = 0; i < count; ++i) b.push_back(static_cast<float>(i % 5) - 2.0f);
      kernels().layer_norm(from(x, DType::kFloat32), from(w, DType::kFloat32), from(b, DType::kFloat32),
                           to(found, DType::kFloat32), count, 1e-5, /*offset=*/0.0f);
      double sum = 0, squares = 0;
      for (float value : x) sum += value;
      const double centre = sum / static_cast<double>(count);
      for (float value : x) squares += (value - centre) * (value - centre);
      const double factor = 1.0 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
      // A few roundings of 2^-24 of numbers that are not larger than the result's parts, whatever the mean.
      for (int64_t i = 0; i < count; ++i) {
        const double scaled = w[i] * (x[i] - centre) * factor;
        ASSERT_NEAR(found[i], scaled + b[i], 1e-6 * (1.0 + std::abs(scaled))) << count << " around " << mean;
      }
    }
  }
}

TEST_P(Rowwise, CentresAConstantRowToTheBias) {
  const std::vector<float> x(40, 0.1f), w(40, 2.0f), b(40, -3.0f);
  std::vector<float> found(40);
  kernels().layer_norm(from(x, DType::kFloat32), from(w, DType::kFloat32), from(b, DType::kFloat32),
                       to(found, DType::kFloat32), 40, 1e-5, /*offset=*/1.0f);
  for (float value : found) EXPECT_NEAR(value, -3.0f, 1e-5f);
}

TEST_P(Rowwise, Scales) {
  for (int64_t count : {1, 16, 35}) {
    const std::vector<uint16_t> x(static_cast<size_t>(count), to_bfloat16(3.0f).bits);
    std::vector<uint16_t> found(static_cast<size_t>(count));
    kernels().scale(from(x, DType::kBFloat16), to(found, DType::kBFloat16), count, 0.7f);
    for (uint16_t bits : found) EXPECT_EQ(bits, to_bfloat16(3.0f * 0.7f).bits);
  }
}

TEST_P(Rowwise, CapsSoftly) {
  std::vector<float> x;
  for (float value = -400.0f; value <= 400.0f; value += 0.83f) x.push_back(value);
  x.insert(x.end(), {0.0f, 1e-6f, kInfinity, -kInfinity});
  std::vector<float> found(x.size());
  kernels().soft_cap(from(x, DType::kFloat32), to(found, DType::kFloat32), static_cast<int64_t>(x.size()), 30.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = 30.0 * std::tanh(double{x[i]} / 30.0);
    EXPECT_NEAR(found[i], exact, std::abs(exact) * 5e-7) << x[i];
  }
}

TEST_P(Rowwise, AddsRows) {
  for (int64_t count : {1, 16, 31, 100}) {
    std::vector<float> x(static_cast<size_t>(count), 1.25f), sum(static_cast<size_t>(count));
    std::vector<uint16_t> y(static_cast<size_t>(count), to_bfloat16(2.5f).bits);
    kernels().add(from(x, DType::kFloat32), from(y, DType::kBFloat16), to(sum, DType::kFloat32), count);
    EXPECT_EQ(sum, std::vector<float>(static_cast<size_t>(count), 3.75f));
    kernels().add_floats(sum.data(), x.data(), count);
    EXPECT_EQ(sum, std::vector<float>(static_cast<size_t>(count), 5.0f));
  }
}

// The numbers are small integers, so sums are exact. Behind the last tap there are weights and a row as well.
TEST_P(Rowwise, ConvolvesTheRowsOfItsTapsAndNoOther) {
  constexpr int64_t kTaps = 3;
  for (int64_t channels : {1, 16, 37}) {
    std::vector<float> weights, found(static_cast<size_t>(channels));
    for (int64_t i = 0; i < (kTaps + 1) * channels; ++i) weights.push_back(static_cast<float>(i % 5 + 1));
    const std::vector<float> first(static_cast<size_t>(channels), 2.0f), last(first.size(), 3.0f), behind(last);
    const auto bytes = [](const std::vector<float>& row) { return reinterpret_cast<const std::byte*>(row.data()); };
    const std::array<const std::byte*, kTaps + 1> rows = {bytes(first), nullptr, bytes(last), bytes(behind)};
    kernels().convolve({.weights = bytes(weights),
                        .weight_stride = channels * int64_t{sizeof(float)},
                        .rows = rows.data(),
                        .taps = kTaps,
                        .channels = channels,
                        .activates = false,
                        .dtype = DType::kFloat32,
                        .dst = reinterpret_cast<std::byte*>(found.data())});
    for (int64_t i = 0; i < channels; ++i) {
      EXPECT_EQ(found[i], 2.0f * weights[i] + 3.0f * weights[2 * channels + i]) << i << " of " << channels;
    }
  }
}

TEST(InstructionSets, AreListedFromTheLeastOnAndIncludeTheBest) {
  const std::vector<Isa> isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kPortable);
  EXPECT_EQ(isas.back(), best_isa());
  for (const Isa isa : isas) EXPECT_EQ(isa_of(to_string(isa)), isa);
  EXPECT_EQ(isa_of("mmx"), std::nullopt);
  for (Isa isa : isas) EXPECT_EQ(kernels_for(isa).isa, isa);
  EXPECT_LE(best_isa(), machine_isa());
}

}  // namespace
}  // namespace lockstep::cpu
