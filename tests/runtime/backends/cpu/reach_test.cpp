// Special values in one element of an operand affect exactly the outputs that read it. Tests NaN, infinity and
// denormals in every kernel of rows, on every instruction set, with every tail of a vector. Tiles:
// reach_tiles_test.cpp.
#include "tests/runtime/backends/cpu/reach.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::cpu {
namespace {

INSTANTIATE_TEST_SUITE_P(EveryIsa, Reach, ::testing::ValuesIn(available_isas()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(Reach, OfElementwiseKernelsIsOneElement) {
  for (const DType dtype : kTypes) {
    for (const int64_t count : kTails) {
      std::vector<float> x = numbers(count, 1), y = numbers(count, 2);
      const auto binary = [&](auto kernel) {
        return [&, kernel] {
          const auto a = encode(x, dtype), b = encode(y, dtype);
          return written(dtype, count, [&](Row dst) { kernel(row_of(a, dtype), row_of(b, dtype), dst); });
        };
      };
      const auto model = [&](auto function) {
        return [&, function] {
          std::vector<double> result;
          for (int64_t i = 0; i < count; ++i) result.push_back(function(double{x[i]}, double{y[i]}));
          return result;
        };
      };
      const std::string name = fmt::format("{} {}", to_string(dtype), count);
      const auto expect = [&](const char* kernel, auto run, auto exact) {
        expect_exact_reach({.name = fmt::format("{} {}", kernel, name),
                            .operands = {{"x", &x, dtype}, {"y", &y, dtype}},
                            .run = run,
                            .model = exact,
                            .tolerance = tolerance_of(dtype)});
      };
      expect("add", binary([&](ConstRow a, ConstRow b, Row dst) { kernels().add(a, b, dst, count); }),
             model([](double a, double b) { return a + b; }));
      expect("scale", binary([&](ConstRow a, ConstRow, Row dst) { kernels().scale(a, dst, count, 0.75f); }),
             model([](double a, double) { return a * 0.75; }));
      expect("soft_cap", binary([&](ConstRow a, ConstRow, Row dst) { kernels().soft_cap(a, dst, count, 2.0f); }),
             model([](double a, double) { return 2.0 * std::tanh(a / 2.0); }));
      const auto weighted = [&](ConstRow a, ConstRow b, Row dst) {
        const ConstRow terms[] = {a, b};
        const float factors[] = {0.75f, -0.25f};
        kernels().weighted_sum(terms, factors, 2, dst, count);
      };
      expect("weighted_sum", binary(weighted), model([](double a, double b) { return a * 0.75 - 0.25 * b; }));
    }
  }
}

TEST_P(Reach, OfNormsIsTheirRowAndOfTheirWeightsOneColumn) {
  constexpr double kEpsilon = 1e-5;
  for (const int64_t count : kTails) {
    std::vector<float> x = numbers(count, 5), w = numbers(count, 6), b = numbers(count, 7);
    const auto row = [](const std::vector<float>& values) {
      return ConstRow{reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32};
    };
    for (const float offset : {0.0f, 1.0f}) {
      const NormFactor factor{.offset = offset, .rounds = offset == 0.0f};
      expect_exact_reach(
          {.name = fmt::format("rms_norm {} offset {}", count, offset),
           .operands = {{"x", &x}, {"w", &w}},
           .run =
               [&] {
                 return written(DType::kFloat32, count,
                                [&](Row dst) { kernels().rms_norm(row(x), row(w), dst, count, kEpsilon, factor); });
               },
           .model =
               [&] {
                 double squares = 0;
                 for (float value : x) squares += double{value} * value;
                 const double mean = static_cast<float>(squares) / static_cast<double>(count);
                 std::vector<double> result;
                 for (int64_t i = 0; i < count; ++i) {
                   result.push_back((double{w[i]} + offset) * (x[i] * (1.0 / std::sqrt(mean + kEpsilon))));
                 }
                 return result;
               }});
    }
    const auto mean_square = [](const std::vector<float>& values) {
      double squares = 0;
      for (float value : values) squares += double{value} * value;
      return static_cast<float>(squares) / static_cast<double>(values.size());
    };
    expect_exact_reach({.name = fmt::format("match_magnitude {}", count),
                        .operands = {{"x", &x}, {"like", &w}},
                        .run =
                            [&] {
                              return written(DType::kFloat32, count, [&](Row dst) {
                                kernels().match_magnitude(row(x), row(w), dst, count, kEpsilon);
                              });
                            },
                        .model =
                            [&] {
                              const double target = std::sqrt(mean_square(w));
                              const double divisor = std::sqrt(std::max(mean_square(x), kEpsilon));
                              std::vector<double> result;
                              for (float value : x) result.push_back(value * (target / divisor));
                              return result;
                            },
                        .tolerance = 1e-4});
    expect_exact_reach(
        {.name = fmt::format("fake_quantise {}", count),
         .operands = {{"x", &x}},
         .run =
             [&] {
               return written(DType::kFloat32, count, [&](Row dst) {
                 kernels().fake_quantise(row(x), reinterpret_cast<float*>(dst.data), count, {.group = count});
               });
             },
         .model =
             [&] {
               float largest = 0;
               for (float value : x) {
                 if (!(std::abs(value) <= largest)) largest = std::abs(value);
               }
               const bool are_finite = std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
               const double scale = are_finite ? largest / 127 : std::numeric_limits<double>::quiet_NaN();
               std::vector<double> result;
               for (float value : x) {
                 const double code = std::nearbyint(value / static_cast<float>(scale));
                 result.push_back(largest == 0 ? 0 : code * scale);
               }
               return result;
             },
         .tolerance = 1e-6});
    expect_exact_reach({.name = fmt::format("cut_off {}", count),
                        .operands = {{"x", &x}},
                        .run =
                            [&] {
                              return written(DType::kFloat32, count,
                                             [&](Row dst) { kernels().cut_off(row(x), dst, count, 0.5f); });
                            },
                        .model =
                            [&] {
                              double sum = 0;
                              for (float value : x) sum += value;
                              const double mean = sum / static_cast<double>(count);
                              std::vector<float> distances;
                              for (float value : x) distances.push_back(static_cast<float>(value - mean));
                              const double cut = mean + 0.5 * std::sqrt(mean_square(distances));
                              std::vector<double> result;
                              for (float value : x) result.push_back(value - cut < 0 ? 0.0 : value - cut);  // keeps NaN
                              return result;
                            },
                        .tolerance = 1e-4});
    expect_exact_reach({.name = fmt::format("layer_norm {}", count),
                        .operands = {{"x", &x}, {"w", &w}, {"b", &b}},
                        .run =
                            [&] {
                              return written(DType::kFloat32, count, [&](Row dst) {
                                kernels().layer_norm(row(x), row(w), row(b), dst, count, kEpsilon, 0.0f);
                              });
                            },
                        .model =
                            [&] {
                              double sum = 0, squares = 0;
                              for (float value : x) sum += value;
                              const double centre = sum / static_cast<double>(count);
                              for (float value : x) squares += (value - centre) * (value - centre);
                              const double variance = static_cast<float>(squares) / static_cast<double>(count);
                              std::vector<double> result;
                              for (int64_t i = 0; i < count; ++i) {
                                result.push_back((x[i] - centre) * (1.0 / std::sqrt(variance + kEpsilon)) * w[i] +
                                                 b[i]);
                              }
                              return result;
                            },
                        .tolerance = 1e-4});
  }
}

TEST_P(Reach, OfRotationsIsTwoElements) {
  struct Shape {
    int64_t rotated, head_dim;
  };
  for (const Shape shape : {Shape{2, 2}, {6, 7}, {30, 33}, {34, 34}, {16, 40}}) {
    std::vector<float> x = numbers(shape.head_dim, 8);
    for (const bool neighbours : {false, true}) {
      const int64_t half = shape.rotated / 2;
      std::vector<float> cosines = numbers(half, 9), sines = numbers(half, 10);
      const auto run = [&] {
        std::vector<float> c = cosines, s = sines;
        if (neighbours) {
          c.clear();
          s.clear();
          for (int64_t i = 0; i < half; ++i) {
            c.insert(c.end(), {cosines[i], cosines[i]});
            s.insert(s.end(), {-sines[i], sines[i]});
          }
        }
        const ConstRow from{reinterpret_cast<const std::byte*>(x.data()), DType::kFloat32};
        return written(DType::kFloat32, shape.head_dim, [&](Row dst) {
          (neighbours ? kernels().rope_neighbours : kernels().rope_halves)(from, c.data(), s.data(), dst, shape.rotated,
                                                                           shape.head_dim);
        });
      };
      const auto model = [&] {
        std::vector<double> result(x.begin(), x.end());
        for (int64_t i = 0; i < half; ++i) {
          const int64_t first = neighbours ? 2 * i : i, second = neighbours ? 2 * i + 1 : half + i;
          const double a = x[first], b = x[second], c = cosines[i], s = sines[i];
          result[first] = a * c - b * s;
          result[second] = b * c + a * s;
        }
        return result;
      };
      expect_exact_reach(
          {.name = fmt::format("rope of {} of {}{}", shape.rotated, shape.head_dim, neighbours ? ", neighbours" : ""),
           .operands = {{"x", &x}, {"cosines", &cosines}, {"sines", &sines}},
           .run = run,
           .model = model});
    }
  }
}

TEST_P(Reach, OfARouteIsItsRow) {
  for (const int64_t experts : {1, 5, 16, 17, 40}) {
    std::vector<float> logits;
    for (int64_t i = 0; i < experts; ++i) logits.push_back(static_cast<float>((i * 7) % 41) / 8.0f - 2.0f);
    const int64_t chosen = std::min<int64_t>(3, experts);
    expect_exact_reach({.name = fmt::format("route {}", experts),
                        .operands = {{"logits", &logits}},
                        .run =
                            [&] {
                              std::vector<float> found(logits.size());
                              kernels().route(logits.data(), found.data(), experts, {.chosen = chosen});
                              return found;
                            },
                        .model =
                            [&] {
                              // NaN is never chosen; among infinities the softmax is NaN, everywhere.
                              std::vector<double> shares(logits.size(), -kInfinity);
                              double most = -kInfinity;
                              std::vector<bool> taken(logits.size(), false);
                              for (int64_t k = 0; k < chosen; ++k) {
                                int64_t best = -1;
                                for (int64_t i = 0; i < experts; ++i) {
                                  const bool better = best < 0 ? !std::isnan(logits[i]) : logits[i] > logits[best];
                                  if (!taken[i] && better) best = i;
                                }
                                if (best < 0) break;
                                taken[best] = true;
                                shares[best] = logits[best];
                                most = std::max(most, shares[best]);
                              }
                              double total = 0;
                              for (double& share : shares) total += share = std::exp(share - most);
                              for (double& share : shares) share /= total;
                              return shares;
                            }});
  }
}

TEST_P(Reach, OfEverySixteenBitNumberIsItself) {
  // All bits there are, and the float32 numbers in the middle of two neighbours and next to it.
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<uint16_t> bits(65536), back(65536);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
    std::vector<float> wide(bits.size());
    const auto count = static_cast<int64_t>(bits.size());
    kernels().convert({reinterpret_cast<const std::byte*>(bits.data()), dtype},
                      {reinterpret_cast<std::byte*>(wide.data()), DType::kFloat32}, count);
    kernels().convert({reinterpret_cast<const std::byte*>(wide.data()), DType::kFloat32},
                      {reinterpret_cast<std::byte*>(back.data()), dtype}, count);
    for (size_t i = 0; i < bits.size(); ++i) {
      if (std::isnan(wide[i])) continue;
      ASSERT_EQ(back[i], bits[i]) << to_string(dtype);
    }
    for (const int nudge : {-1, 0, 1}) {
      std::vector<float> between;
      for (size_t i = 0; i + 1 < bits.size(); ++i) {
        const uint32_t low = std::bit_cast<uint32_t>(wide[i]), high = std::bit_cast<uint32_t>(wide[i + 1]);
        const float middle = std::bit_cast<float>((low >> 1) + (high >> 1) + static_cast<uint32_t>(nudge));
        between.push_back(std::isnan(middle) || std::isnan(wide[i]) ? 0.0f : middle);
      }
      std::vector<uint16_t> rounded(between.size());
      kernels().convert({reinterpret_cast<const std::byte*>(between.data()), DType::kFloat32},
                        {reinterpret_cast<std::byte*>(rounded.data()), dtype}, static_cast<int64_t>(between.size()));
      for (size_t i = 0; i < between.size(); ++i) {
        const uint16_t expected =
            dtype == DType::kBFloat16 ? to_bfloat16(between[i]).bits : to_float16(between[i]).bits;
        ASSERT_EQ(rounded[i], expected) << to_string(dtype) << " " << between[i];
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu
