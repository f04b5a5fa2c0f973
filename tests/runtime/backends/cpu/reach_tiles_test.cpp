// The same as reach_test.cpp for the kernels of tiles: products, rounding, activations, scores.
#include <fmt/format.h>

#include <algorithm>

#include "tests/runtime/backends/cpu/reach.h"

namespace lockstep::cpu {
namespace {

class ReachInTiles : public Reach {};

INSTANTIATE_TEST_SUITE_P(EveryIsa, ReachInTiles, ::testing::ValuesIn(available_isas()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

/// An activation in double precision: the formula that PyTorch computes, −∞ included, except gelu's, whose limit is
/// taken.
double activated(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kSigmoid: return 1.0 / (1.0 + std::exp(-x));
    case ActivationKind::kSilu: return x / (1.0 + std::exp(-x));
    case ActivationKind::kGelu: return x == -kInfinity ? 0.0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::kGeluTanh:
      return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kRelu: return std::isnan(x) ? x : std::max(x, 0.0);
    case ActivationKind::kSquaredRelu: return std::isnan(x) ? x : std::max(x, 0.0) * std::max(x, 0.0);
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

constexpr ActivationKind kKinds[] = {ActivationKind::kSilu,        ActivationKind::kGelu,
                                     ActivationKind::kGeluTanh,    ActivationKind::kRelu,
                                     ActivationKind::kSquaredRelu, ActivationKind::kClampedSwiglu};

TEST_P(ReachInTiles, OfActivationsIsOneElement) {
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

TEST_P(ReachInTiles, OfTilesIsOneColumnOfTheirRowsAndOfABiasAColumn) {
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

TEST_P(ReachInTiles, OfAScoreIsItsRowAndNothingWhereTheRowDoesNotSeeIt) {
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

TEST_P(ReachInTiles, OfARowWithoutASumIsNan) {
  // No key was seen, or none but −∞: 0 / 0, as a softmax over nothing.
  const std::vector<float> result(2 * kStrip, 0.0f), sum(kStrip, 0.0f);
  for (float value :
       written(DType::kFloat32, 17, [&](Row dst) { kernels().finish_attention(result.data(), sum.data(), dst, 17); })) {
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(ReachInTiles, OfAProductIsARowOrAColumn) {
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

}  // namespace
}  // namespace lockstep::cpu
