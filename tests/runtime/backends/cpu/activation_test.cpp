// Activations and routing, against arithmetic in double precision, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/backends/cpu/kernels/kernels.h"

namespace lockstep::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Activations : public ::testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }

  std::vector<float> activate(ActivationKind kind, const std::vector<float>& x) const {
    std::vector<float> found(x.size());
    kernels().activate({.kind = kind}, row_of(x), {reinterpret_cast<std::byte*>(found.data()), DType::kFloat32},
                       static_cast<int64_t>(x.size()));
    return found;
  }
  static ConstRow row_of(const std::vector<float>& x) {
    return {reinterpret_cast<const std::byte*>(x.data()), DType::kFloat32};
  }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, Activations, ::testing::ValuesIn(available_isas()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

double exact_silu(double x) { return x / (1.0 + std::exp(-x)); }
double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double exact_gelu_tanh(double x) {
  return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}
double exact_relu(double x) { return std::max(x, 0.0); }

const std::vector<std::pair<ActivationKind, std::function<double(double)>>> kExact = {
    {ActivationKind::kSilu, exact_silu},
    {ActivationKind::kSigmoid, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }},
    {ActivationKind::kGelu, exact_gelu},
    {ActivationKind::kGeluTanh, exact_gelu_tanh},
    {ActivationKind::kRelu, exact_relu},
    {ActivationKind::kSquaredRelu, [](double x) { return exact_relu(x) * exact_relu(x); }}};

std::vector<float> from_to(float begin, float end, float step) {
  std::vector<float> x;
  for (float at = begin; at <= end; at += step) x.push_back(at);
  return x;
}

TEST_P(Activations, AreWithinAMillionthWhereTheyMatter) {
  for (const auto& [kind, exact] : kExact) {
    for (const std::vector<float>& x : {from_to(-6.0f, 6.0f, 0.0017f), from_to(-1e-3f, 1e-3f, 1e-5f)}) {
      const std::vector<float> found = activate(kind, x);
      // Relative for x > 0. Below, e^z is within 2 units in the last place, and z, up to 25 there, rounds as well.
      for (size_t i = 0; i < x.size(); ++i) {
        const double tolerance = x[i] > 0.0f ? 1e-6 : 4e-6;
        ASSERT_NEAR(found[i], exact(x[i]), std::abs(exact(x[i])) * tolerance) << static_cast<int>(kind) << " " << x[i];
      }
    }
  }
}

TEST_P(Activations, KeepTheEndsOfTheRange) {
  for (const auto& [kind, exact] : kExact) {
    const std::vector<float> found = activate(kind, {kNan, kInfinity, 1000.0f, -1000.0f, 0.0f, -40.0f});
    EXPECT_TRUE(std::isnan(found[0]));
    EXPECT_EQ(found[1], kind == ActivationKind::kSigmoid ? 1.0f : kInfinity);
    EXPECT_EQ(found[2], static_cast<float>(exact(1000.0)));
    EXPECT_EQ(found[3], 0.0f);
    EXPECT_EQ(found[4], static_cast<float>(exact(0.0)));
    EXPECT_NEAR(found[5], 0.0f, 1e-15f);
  }
}

TEST_P(Activations, MultiplyTheGatedValue) {
  const std::vector<float> gate = from_to(-4.0f, 4.0f, 0.11f);
  std::vector<float> up;
  for (size_t i = 0; i < gate.size(); ++i) up.push_back(static_cast<float>(i % 7) - 3.0f);
  for (const auto& [kind, exact] : kExact) {
    std::vector<float> found(gate.size());
    kernels().gate({.kind = kind}, row_of(gate), row_of(up),
                   {reinterpret_cast<std::byte*>(found.data()), DType::kFloat32}, static_cast<int64_t>(gate.size()));
    for (size_t i = 0; i < gate.size(); ++i) EXPECT_NEAR(found[i], exact(gate[i]) * up[i], 1e-5);
  }
}

TEST_P(Activations, ClampTheSwigluOfATileAndAddItsBiases) {
  constexpr int kRows = 5, kColumns = 37;
  std::vector<float> gate(kRows * kPanel), up(kRows * kPanel), gate_bias, up_bias, found(kRows * kColumns, -77.0f);
  for (size_t i = 0; i < gate.size(); ++i) {
    gate[i] = static_cast<float>(i % 61) / 3.0f - 10.0f;
    up[i] = static_cast<float>(i % 43) / 2.0f - 10.0f;
  }
  for (int i = 0; i < kColumns; ++i) {
    gate_bias.push_back(0.25f * static_cast<float>(i % 3));
    up_bias.push_back(-0.5f * static_cast<float>(i % 4));
  }
  kernels().gate_tile({.gate = gate.data(),
                       .up = up.data(),
                       .rows = kRows,
                       .columns = kColumns,
                       .gate_bias = row_of(gate_bias).data,
                       .up_bias = row_of(up_bias).data,
                       .bias_type = DType::kFloat32,
                       .activation = {.kind = ActivationKind::kClampedSwiglu, .limit = 7.0f, .alpha = 1.702f},
                       .dst = reinterpret_cast<std::byte*>(found.data()),
                       .dst_stride = kColumns * 4,
                       .dst_type = DType::kFloat32});
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      const double g = std::min<double>(gate[row * kPanel + column] + gate_bias[column], 7.0);
      const double u = std::clamp<double>(up[row * kPanel + column] + up_bias[column], -7.0, 7.0);
      const double exact = (u + 1.0) * g / (1.0 + std::exp(-1.702 * g));
      ASSERT_NEAR(found[row * kColumns + column], exact, 1e-6 * (1.0 + std::abs(exact)));
    }
  }
}

class Routing : public Activations {
 protected:
  std::vector<float> route(const std::vector<float>& logits, int64_t chosen) const {
    return route(logits, RouteRule{.chosen = chosen});
  }

  std::vector<float> route(const std::vector<float>& logits, const RouteRule& rule) const {
    std::vector<float> found(logits.size() + 1, -77.0f);
    kernels().route(logits.data(), found.data(), static_cast<int64_t>(logits.size()), rule);
    EXPECT_EQ(found.back(), -77.0f);
    found.pop_back();
    return found;
  }
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, Routing, ::testing::ValuesIn(available_isas()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(Routing, IsTheSoftmaxOfTheHighest) {
  for (int64_t experts : {1, 8, 16, 17, 60, 128}) {
    std::vector<float> logits;
    for (int64_t i = 0; i < experts; ++i) logits.push_back(static_cast<float>((i * 37) % 101) / 20.0f - 2.0f);
    std::vector<int64_t> order(static_cast<size_t>(experts));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
    for (int64_t chosen : {int64_t{1}, int64_t{2}, int64_t{4}, experts}) {
      if (chosen > experts) continue;
      std::vector<double> exact(logits.size(), 0.0);
      double total = 0;
      for (int64_t i = 0; i < chosen; ++i) total += exact[order[i]] = std::exp(double{logits[order[i]]});
      const std::vector<float> found = route(logits, chosen);
      for (int64_t i = 0; i < experts; ++i)
        EXPECT_NEAR(found[i], exact[i] / total, 1e-6) << chosen << " of " << experts;
      EXPECT_EQ(std::count(found.begin(), found.end(), 0.0f), experts - chosen);
    }
  }
}

TEST_P(Routing, GivesTiesToTheLowestExpert) {
  EXPECT_EQ(route({1, 3, 3, 3, 2}, 2), (std::vector<float>{0, 0.5f, 0.5f, 0, 0}));
  EXPECT_EQ(route({0, 0, 0, 0}, 2), (std::vector<float>{0.5f, 0.5f, 0, 0}));
}

TEST_P(Routing, NeverChoosesANanAndSaysSoWhereItCannotChoose) {
  EXPECT_EQ(route({kNan, 2, kNan, 2}, 2), (std::vector<float>{0, 0.5f, 0, 0.5f}));
  EXPECT_EQ(route({-kInfinity, 5}, 2), (std::vector<float>{0, 1}));
  for (float value : route({kNan, kNan}, 1)) EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(route({kNan, 2, kNan, 2}, {.chosen = 1, .is_divided = false}), (std::vector<float>{0, 0.5f, 0, 0}));
  EXPECT_EQ(route({kNan, 0, kNan, 0}, {.chosen = 3, .is_sigmoid = true}), (std::vector<float>{0, 0.5f, 0, 0.5f}));
  for (float value : route({kNan, kNan}, {.chosen = 1, .is_sigmoid = true})) EXPECT_TRUE(std::isnan(value));
  const RouteRule grouped{.chosen = 2, .is_sigmoid = true, .groups = 2, .kept_groups = 1, .by_best_two = true};
  EXPECT_EQ(route({kNan, 9, kNan, 0, 0, 0}, grouped), (std::vector<float>{0, 0, 0, 0.5f, 0.5f, 0}));
}

TEST_P(Routing, ChoosesByScoreAndBiasInTheBestGroups) {
  const float bias[] = {0, 0, 0, 0, 1, 0};
  const std::vector<float> logits = {0, 0, 0, 0, 0, 0};
  EXPECT_EQ(route(logits, {.chosen = 1, .is_sigmoid = true, .is_divided = false, .bias = bias}),
            (std::vector<float>{0, 0, 0, 0, 0.5f, 0}));
  EXPECT_EQ(route(logits, {.chosen = 2, .is_sigmoid = true, .bias = bias, .groups = 3, .kept_groups = 1, .scale = 4}),
            (std::vector<float>{0, 0, 0, 0, 2, 2}));
  // By the best expert the first group, by the best two the second.
  const std::vector<float> uneven = {0.5f, -4, 0.25f, 0.25f, -9, -9};
  const auto kept = [&](bool by_best_two) {
    return route(uneven, {.chosen = 1, .groups = 3, .kept_groups = 1, .by_best_two = by_best_two});
  };
  EXPECT_EQ(kept(false), (std::vector<float>{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(kept(true), (std::vector<float>{0, 0, 1, 0, 0, 0}));
}

TEST_P(Routing, DividesByNoLessThanTheLeastSum) {
  const std::vector<float> found = route({0, 0, 0, 0}, {.chosen = 2, .least_sum = 2.0f});
  EXPECT_EQ(found, (std::vector<float>{0.125f, 0.125f, 0, 0}));
}

}  // namespace
}  // namespace lockstep::cpu
