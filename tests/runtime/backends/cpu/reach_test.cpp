// A NaN, an infinity or a denormal in one place of one operand reaches exactly the outputs that read it, in every
// kernel, on every instruction set, with every tail of a vector.
#include "tests/runtime/backends/cpu/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/backends/cpu/kernels/kernels.h"
#include "tests/runtime/backends/cpu/product_fixture.h"

namespace lockstep::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kTails[] = {1, 2, 15, 16, 17, 33};  // around one vector and two
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr uint16_t kGuard = 0xabcd;

/// Relative error of a result that is rounded to `dtype` once.
double tolerance_of(DType dtype) {
  if (dtype == DType::kFloat32) return 4e-6;
  return dtype == DType::kBFloat16 ? 1.0 / 200 : 1.0 / 1600;
}

/// Numbers between 0.25 and 2 of both signs, exact in every type, with nothing that cancels to zero.
std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> values = random_numbers(count, seed);
  for (float& value : values) value = std::copysign(0.25f + std::abs(value) * 0.75f, value == 0.0f ? 1.0f : value);
  for (float& value : values) value = rounded_to_type(value, DType::kBFloat16);
  return values;
}

ConstRow row_of(const std::vector<std::byte>& bytes, DType dtype) { return {bytes.data(), dtype}; }

/// Calls `kernel(dst)` for a row of `count` elements with a guard behind it; what it wrote, as float32.
template <typename Kernel>
std::vector<float> written(DType dtype, int64_t count, Kernel kernel) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size_of(dtype) + sizeof kGuard);
  std::memcpy(bytes.data() + bytes.size() - sizeof kGuard, &kGuard, sizeof kGuard);
  kernel(Row{bytes.data(), dtype});
  EXPECT_EQ(std::memcmp(bytes.data() + bytes.size() - sizeof kGuard, &kGuard, sizeof kGuard), 0) << "overrun";
  std::vector<float> values(static_cast<size_t>(count));
  convert_elements(bytes.data(), dtype, reinterpret_cast<std::byte*>(values.data()), DType::kFloat32, values.size());
  return values;
}

class Reach : public ::testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

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
    }
  }
}

/// An activation in double precision: the formula that PyTorch computes, −∞ included, but for gelu's, whose limit is
/// taken.
double activated(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kSilu: return x / (1.0 + std::exp(-x));
    case ActivationKind::kGelu: return x == -kInfinity ? 0.0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::kGeluTanh:
      return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kRelu: return std::isnan(x) ? x : std::max(x, 0.0);
    case ActivationKind::kClampedSwiglu: break;
  }
  return x;
}

constexpr float kLimit = 1.5f, kAlpha = 1.702f;

double gated(ActivationKind kind, double gate, double up) {
  if (kind != ActivationKind::kClampedSwiglu) {
    return static_cast<float>(activated(kind, gate)) * up;  // the activation may leave float32's range
  }
  const auto clamped = [](double x, double low, double high) { return x < low ? low : x > high ? high : x; };
  const double g = clamped(gate, -kInfinity, kLimit), u = clamped(up, -kLimit, kLimit);
  return (u + 1.0) * (g / (1.0 + std::exp(-double{kAlpha} * g)));
}

constexpr ActivationKind kKinds[] = {ActivationKind::kSilu, ActivationKind::kGelu, ActivationKind::kGeluTanh,
                                     ActivationKind::kRelu, ActivationKind::kClampedSwiglu};

TEST_P(Reach, OfActivationsIsOneElement) {
  for (const ActivationKind kind : kKinds) {
    const Activation activation{.kind = kind, .limit = kLimit, .alpha = kAlpha};
    for (const int64_t count : {1, 16, 17, 31}) {
      std::vector<float> x = numbers(count, 3), y = numbers(count, 4);
      const auto bytes = [](const std::vector<float>& values) {
        return ConstRow{reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32};
      };
      const auto each = [&](auto function) {
        return [&, function] {
          std::vector<double> result;
          for (int64_t i = 0; i < count; ++i) result.push_back(function(x[i], y[i]));
          return result;
        };
      };
      const std::string name = fmt::format("activation {} of {}", static_cast<int>(kind), count);
      expect_exact_reach({.name = name + ", gated",
                          .operands = {{"gate", &x}, {"up", &y}},
                          .run =
                              [&] {
                                return written(DType::kFloat32, count, [&](Row dst) {
                                  kernels().gate(activation, bytes(x), bytes(y), dst, count);
                                });
                              },
                          .model = each([&](float g, float u) { return gated(kind, g, u); })});
      if (kind == ActivationKind::kClampedSwiglu) continue;
      expect_exact_reach({.name = name,
                          .operands = {{"x", &x}},
                          .run =
                              [&] {
                                return written(DType::kFloat32, count,
                                               [&](Row dst) { kernels().activate(activation, bytes(x), dst, count); });
                              },
                          .model = each([&](float g, float) { return activated(kind, g); })});
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
      expect_exact_reach(
          {.name = fmt::format("rms_norm {} offset {}", count, offset),
           .operands = {{"x", &x}, {"w", &w}},
           .run =
               [&] {
                 return written(DType::kFloat32, count,
                                [&](Row dst) { kernels().rms_norm(row(x), row(w), dst, count, kEpsilon, offset); });
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
    expect_exact_reach(
        {.name = fmt::format("layer_norm {}", count),
         .operands = {{"x", &x}, {"w", &w}, {"b", &b}},
         .run =
             [&] {
               return written(DType::kFloat32, count,
                              [&](Row dst) { kernels().layer_norm(row(x), row(w), row(b), dst, count, kEpsilon); });
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
                 result.push_back((x[i] - centre) * (1.0 / std::sqrt(variance + kEpsilon)) * w[i] + b[i]);
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

TEST_P(Reach, OfTilesIsOneColumnOfTheirRowsAndOfABiasAColumn) {
  for (const int columns : {1, 16, 31, 64}) {
    constexpr int kRows = 3;
    std::vector<float> gate = numbers(kRows * kPanel, 11), up = numbers(kRows * kPanel, 12);
    std::vector<float> bias = numbers(columns, 13), up_bias = numbers(columns, 14);
    const auto bytes = [](std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); };
    std::vector<float> dst(static_cast<size_t>(kRows * columns));
    const auto over = [&](auto function) {
      return [&, function] {
        std::vector<double> result;
        for (int row = 0; row < kRows; ++row) {
          for (int i = 0; i < columns; ++i) result.push_back(function(row, i));
        }
        return result;
      };
    };
    expect_exact_reach({.name = fmt::format("finish_tile {}", columns),
                        .operands = {{"sums", &gate}, {"bias", &bias}},
                        .run =
                            [&] {
                              kernels().finish_tile({.sums = gate.data(),
                                                     .rows = kRows,
                                                     .columns = columns,
                                                     .bias = bytes(bias),
                                                     .bias_type = DType::kFloat32,
                                                     .dst = bytes(dst),
                                                     .dst_stride = columns * 4,
                                                     .dst_type = DType::kFloat32});
                              return dst;
                            },
                        .model = over([&](int row, int i) { return double{gate[row * kPanel + i]} + bias[i]; })});
    const Activation swiglu{.kind = ActivationKind::kClampedSwiglu, .limit = kLimit, .alpha = kAlpha};
    expect_exact_reach({.name = fmt::format("gate_tile {}", columns),
                        .operands = {{"gate", &gate}, {"up", &up}, {"gate_bias", &bias}, {"up_bias", &up_bias}},
                        .run =
                            [&] {
                              kernels().gate_tile({.gate = gate.data(),
                                                   .up = up.data(),
                                                   .rows = kRows,
                                                   .columns = columns,
                                                   .gate_bias = bytes(bias),
                                                   .up_bias = bytes(up_bias),
                                                   .bias_type = DType::kFloat32,
                                                   .activation = swiglu,
                                                   .dst = bytes(dst),
                                                   .dst_stride = columns * 4,
                                                   .dst_type = DType::kFloat32});
                              return dst;
                            },
                        .model = over([&](int row, int i) {
                          return gated(swiglu.kind, double{gate[row * kPanel + i]} + bias[i],
                                       double{up[row * kPanel + i]} + up_bias[i]);
                        })});
    std::vector<float> routes = numbers(kRows, 15), totals = numbers(5 * kPanel, 16);
    const int32_t places[kRows] = {4, 0, 2};
    expect_exact_reach({.name = fmt::format("add_routed {}", columns),
                        .operands = {{"sums", &gate}, {"bias", &bias}, {"routes", &routes}, {"totals", &totals}},
                        .run =
                            [&] {
                              std::vector<float> to = totals, result;
                              kernels().add_routed({.sums = gate.data(),
                                                    .rows = kRows,
                                                    .columns = columns,
                                                    .bias = bytes(bias),
                                                    .bias_type = DType::kFloat32,
                                                    .routes = routes.data(),
                                                    .places = places,
                                                    .totals = to.data()});
                              for (int row = 0; row < 5; ++row) {
                                result.insert(result.end(), to.begin() + row * kPanel,
                                              to.begin() + row * kPanel + columns);
                              }
                              return result;
                            },
                        .model =
                            [&] {
                              std::vector<double> result;
                              for (int row = 0; row < 5; ++row) {
                                for (int i = 0; i < columns; ++i) {
                                  double total = totals[row * kPanel + i];
                                  for (int r = 0; r < kRows; ++r) {
                                    if (places[r] != row) continue;
                                    const float sum = gate[r * kPanel + i] + bias[i];
                                    total = double{routes[r]} * sum + total;
                                  }
                                  result.push_back(total);
                                }
                              }
                              return result;
                            }});
  }
}

struct SoftmaxShape {
  int begin, end;
  float soft_cap;
  bool has_slopes;
};

TEST_P(Reach, OfAScoreIsItsRowAndNothingWhereTheRowDoesNotSeeIt) {
  constexpr int kRows = 2;
  constexpr int64_t kColumns = 32;
  for (const SoftmaxShape& shape :
       {SoftmaxShape{0, 64, 0, false}, {0, 1, 0, false}, {5, 37, 0, false}, {17, 33, 2.0f, true}, {63, 64, 0, true}}) {
    std::vector<float> scores = numbers(kRows * kPanel, 17), result = numbers(kRows * kColumns, 18);
    std::vector<float> sums = numbers(kRows * kStrip, 19), slopes = numbers(kRows, 20);
    const float distance[kRows] = {-40.0f, -39.0f}, maximum[kRows] = {-kInfinity, 0.75f};
    const auto run = [&] {
      std::vector<float> weights = scores, sum = sums, to = result;
      std::vector<float> most(maximum, maximum + kRows);
      kernels().softmax_tile({.scores = weights.data(),
                              .rows = kRows,
                              .begin = shape.begin,
                              .end = shape.end,
                              .scale = 0.5f,
                              .soft_cap = shape.soft_cap,
                              .slope = shape.has_slopes ? slopes.data() : nullptr,
                              .distance = distance,
                              .maximum = most.data(),
                              .sum = sum.data(),
                              .result = to.data(),
                              .result_columns = kColumns});
      // Of the lanes of a sum only the total is read.
      std::vector<float> out;
      for (int row = 0; row < kRows; ++row) {
        float total = 0;
        for (int lane = 0; lane < kStrip; ++lane) total += sum[row * kStrip + lane];
        out.push_back(total);
        out.insert(out.end(), weights.begin() + row * kPanel, weights.begin() + (row + 1) * kPanel);
        out.insert(out.end(), to.begin() + row * kColumns, to.begin() + (row + 1) * kColumns);
      }
      return out;
    };
    const auto model = [&] {
      std::vector<double> out;
      for (int row = 0; row < kRows; ++row) {
        std::vector<double> shaped;
        double most = maximum[row];
        for (int i = 0; i < kPanel; ++i) {
          double score = scores[row * kPanel + i] * 0.5;
          if (shape.soft_cap != 0) score = shape.soft_cap * std::tanh(score / shape.soft_cap);
          if (shape.has_slopes) score += double{slopes[row]} * (distance[row] + i);
          score = static_cast<float>(score);  // may leave the range
          if (i < shape.begin || i >= shape.end) score = -kInfinity;
          if (score > most) most = score;
          shaped.push_back(score);
        }
        const double origin = most == -kInfinity ? 0.0 : most;
        const double rescale = most == maximum[row] ? 1.0 : std::exp(maximum[row] - origin);
        double total = 0;
        for (int lane = 0; lane < kStrip; ++lane) total += sums[row * kStrip + lane] * rescale;
        for (double& score : shaped) total += score = std::exp(score - origin);
        out.push_back(total);
        out.insert(out.end(), shaped.begin(), shaped.end());
        for (int64_t i = 0; i < kColumns; ++i) out.push_back(result[row * kColumns + i] * rescale);
      }
      return out;
    };
    expect_exact_reach({.name = fmt::format("softmax_tile {}:{}", shape.begin, shape.end),
                        .operands = {{"scores", &scores}, {"slopes", &slopes}, {"result", &result}},
                        .run = run,
                        .model = model,
                        .tolerance = 2e-5});
  }
}

TEST_P(Reach, OfARowWithoutASumIsNan) {
  // No key was seen, or none but −∞: 0 / 0, as a softmax over nothing.
  const std::vector<float> result(17, 0.0f), sum(kStrip, 0.0f);
  for (float value :
       written(DType::kFloat32, 17, [&](Row dst) { kernels().finish_attention(result.data(), sum.data(), dst, 17); })) {
    EXPECT_TRUE(std::isnan(value));
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
                              kernels().route(logits.data(), found.data(), experts, chosen);
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

TEST_P(Reach, OfAProductIsARowOrAColumn) {
  struct Shape {
    int64_t rows, n, k;
  };
  for (const DType dtype : kTypes) {
    // Every count of rows of a tile, tails of strips and panels, odd K.
    for (const Shape& s : {Shape{1, 1, 1}, {1, 17, 5}, {2, 16, 3}, {3, 33, 2}, {4, 15, 7}, {5, 65, 3}, {7, 31, 9}}) {
      ProductFixture product{kernels(), dtype, {s.rows, s.n, s.k}};
      product.x = numbers(s.rows * s.k, 21);
      product.w = numbers(s.n * s.k, 22);
      for (const bool in_leaves : {false, true}) {
        const int64_t leaves = (s.k + 2) / 3;
        expect_exact_reach({.name = fmt::format("product of {} {}x{}x{}{}", to_string(dtype), s.rows, s.n, s.k,
                                                in_leaves ? " in leaves of 3" : ""),
                            .operands = {{"x", &product.x, dtype}, {"w", &product.w, dtype}},
                            .run =
                                [&] {
                                  return in_leaves ? product.run(1, BlockSplit{{0, leaves}}, 0, 3) : product.run();
                                },
                            .model = [&] { return product.exact(); },
                            .tolerance = 1e-4});
      }
    }
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
