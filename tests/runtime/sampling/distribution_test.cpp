// Compares sampled tokens with exact probabilities. A chi-square statistic of d degrees of freedom has mean d and
// variance 2d; above d + 6·sqrt(2d) + 6 the chance is below 1e-5 for the d used here, and with fixed seeds the outcome
// never changes. Each check is also shown to fail on a planted error.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/runtime/sampling/by_definition.h"

namespace lockstep::sampling {
namespace {

constexpr uint32_t kDraws = 40000;

std::vector<float> logits_of(size_t size) {
  std::vector<float> logits(size);
  for (size_t i = 0; i < size; ++i) logits[i] = 5.0f * uniform(77, static_cast<uint32_t>(i));
  return logits;
}

std::vector<int64_t> count_draws(const std::vector<float>& logits, const Parameters& parameters) {
  Scratch scratch(static_cast<int64_t>(logits.size()));
  std::vector<int64_t> counts(logits.size(), 0);
  for (uint32_t i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(choose(logits, {}, parameters, i, scratch))];
  }
  return counts;
}

/// Whether `counts` may be samples from `probabilities`; ids expected fewer than 5 times are combined.
bool is_plausible(const std::vector<int64_t>& counts, const std::vector<double>& probabilities) {
  double total = 0.0;
  for (int64_t count : counts) total += static_cast<double>(count);
  double statistic = 0.0;
  double rare_expected = 0.0;
  double rare_count = 0.0;
  int cells = 0;
  const auto add_cell = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * total;
    if (probabilities[i] == 0.0 && counts[i] > 0) return false;
    if (expected < 5.0) {
      rare_expected += expected;
      rare_count += static_cast<double>(counts[i]);
    } else {
      add_cell(static_cast<double>(counts[i]), expected);
    }
  }
  if (rare_expected > 0.0) add_cell(rare_count, std::max(rare_expected, 1.0));
  const double degrees = std::max(1, cells - 1);
  return statistic < degrees + 6 * std::sqrt(2 * degrees) + 6;
}

TEST(Distribution, IsThatOfTheProcessedScores) {
  const std::vector<float> logits = logits_of(40);
  const Parameters cases[] = {
      {.do_sample = true, .seed = 1},
      {.do_sample = true, .temperature = 0.6f, .seed = 2},
      {.do_sample = true, .top_k = 7, .seed = 3},
      {.do_sample = true, .top_p = 0.7f, .seed = 4},
      {.do_sample = true, .min_p = 0.2f, .seed = 5},
      {.do_sample = true, .temperature = 1.4f, .top_k = 20, .top_p = 0.9f, .min_p = 0.05f, .seed = 6},
      {.do_sample = true, .seed = 7, .typical_p = 0.3f},
      {.do_sample = true, .seed = 8, .eta_cutoff = 0.3f}};
  for (const Parameters& parameters : cases) {
    EXPECT_TRUE(is_plausible(count_draws(logits, parameters), probabilities_by_definition(logits, parameters)))
        << "seed " << parameters.seed;
  }
}

TEST(Distribution, CheckNoticesATopPThatIsOneTokenOff) {
  const std::vector<float> logits = logits_of(40);
  const Parameters parameters{.do_sample = true, .top_p = 0.7f, .seed = 4};
  std::vector<double> exact = probabilities_by_definition(logits, parameters);
  size_t lowest = 0;  // kept, and the first that would go
  for (size_t i = 0; i < exact.size(); ++i) {
    if (exact[i] > 0.0 && (exact[lowest] == 0.0 || exact[i] < exact[lowest])) lowest = i;
  }
  const double rest = 1.0 - exact[lowest];
  exact[lowest] = 0.0;
  for (double& probability : exact) probability /= rest;
  EXPECT_FALSE(is_plausible(count_draws(logits, parameters), exact));
}

TEST(Distribution, CheckNoticesAWrongTemperature) {
  const std::vector<float> logits = logits_of(40);
  const auto counts = count_draws(logits, {.do_sample = true, .temperature = 0.95f});
  EXPECT_FALSE(is_plausible(counts, probabilities_by_definition(logits, {.do_sample = true})));
}

// Pairs of tokens that two rows sample at the same output index: independent rows give the product of probabilities.

std::vector<int64_t> count_pairs(const std::vector<float>& logits, uint64_t first_seed, uint64_t second_seed) {
  Scratch scratch(static_cast<int64_t>(logits.size()));
  std::vector<int64_t> counts(logits.size() * logits.size(), 0);
  for (uint32_t i = 0; i < kDraws; ++i) {
    const auto first = static_cast<size_t>(choose(logits, {}, {.do_sample = true, .seed = first_seed}, i, scratch));
    const auto second = static_cast<size_t>(choose(logits, {}, {.do_sample = true, .seed = second_seed}, i, scratch));
    ++counts[first * logits.size() + second];
  }
  return counts;
}

std::vector<double> independent_pairs(const std::vector<float>& logits) {
  const std::vector<double> exact = probabilities_by_definition(logits, {.do_sample = true});
  std::vector<double> pairs;
  for (double first : exact) {
    for (double second : exact) pairs.push_back(first * second);
  }
  return pairs;
}

TEST(Distribution, OfTwoRowsIsIndependent) {
  const std::vector<float> logits = logits_of(6);
  EXPECT_TRUE(is_plausible(count_pairs(logits, row_seed(5, 0), row_seed(5, 1)), independent_pairs(logits)));
}

TEST(Distribution, CheckNoticesACounterThatRowsShare) {
  const std::vector<float> logits = logits_of(6);
  EXPECT_FALSE(is_plausible(count_pairs(logits, row_seed(5, 0), row_seed(5, 0)), independent_pairs(logits)));
}

TEST(Distribution, OfConsecutiveOutputsIsIndependent) {
  const std::vector<float> logits = logits_of(6);
  Scratch scratch(6);
  const Parameters parameters{.do_sample = true, .seed = 12};
  std::vector<int64_t> counts(36, 0);
  for (uint32_t i = 0; i < kDraws; ++i) {
    const auto first = static_cast<size_t>(choose(logits, {}, parameters, 2 * i, scratch));
    ++counts[first * 6 + static_cast<size_t>(choose(logits, {}, parameters, 2 * i + 1, scratch))];
  }
  EXPECT_TRUE(is_plausible(counts, independent_pairs(logits)));
}

}  // namespace
}  // namespace lockstep::sampling
