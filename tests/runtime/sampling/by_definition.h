// The processors implemented directly from their definitions. They sort and sum everything; the slow reference for the
// selection in runtime/sampling.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/sampling/exponential.h"
#include "runtime/sampling/sampling.h"

namespace lockstep::sampling {

/// The ids kept by the last three processors, for the scores that reach them.
inline void keep_by_information(std::vector<float>& scores, const Parameters& parameters) {
  constexpr float kExcluded = -std::numeric_limits<float>::infinity();
  float best = 0.0f;
  double total = 0.0;
  double mean = 0.0;  // of the depth below the best
  const auto weight = [&](size_t id) { return exp_nonpositive(scores[id] - best); };
  const auto measure = [&] {
    best = *std::max_element(scores.begin(), scores.end());
    total = 0.0;
    for (size_t id = 0; id < scores.size(); ++id) total += weight(id);
    mean = 0.0;
    for (size_t id = 0; id < scores.size(); ++id) {
      if (weight(id) > 0.0f) mean += static_cast<double>(weight(id)) * (best - scores[id]);
    }
    mean /= total;
  };
  const auto drop_below = [&](float least) {
    const std::vector<float> before = scores;
    for (size_t id = 0; id < scores.size(); ++id) {
      const float share = static_cast<float>(exp_nonpositive(before[id] - best) / total);
      if (share < least && before[id] < best) scores[id] = kExcluded;
    }
  };

  if (parameters.typical_p < 1.0f) {
    measure();
    std::vector<std::pair<float, size_t>> nearest;  // distance from the entropy, id
    for (size_t id = 0; id < scores.size(); ++id) {
      if (scores[id] > kExcluded) {
        nearest.emplace_back(std::abs((best - scores[id]) - static_cast<float>(mean)), id);
      }
    }
    std::sort(nearest.begin(), nearest.end());
    double sum = 0.0;
    size_t last = 0;
    while (last + 1 < nearest.size()) {
      sum += weight(nearest[last].second);
      if (static_cast<float>(sum / total) >= parameters.typical_p) break;
      ++last;
    }
    const float farthest = nearest[last].first;
    for (const auto& [distance, id] : nearest) {
      if (distance > farthest) scores[id] = kExcluded;
    }
  }
  measure();
  drop_below(parameters.epsilon_cutoff);
  measure();
  const double inverse_perplexity = exp_nonpositive(static_cast<float>(-mean)) / total;
  const auto eta = static_cast<float>(std::sqrt(parameters.eta_cutoff) * inverse_perplexity);
  drop_below(std::min(parameters.eta_cutoff, eta));
}

/// All processors of sampling over finite logits.
inline std::vector<float> scores_by_definition(const std::vector<float>& logits, const Parameters& parameters) {
  constexpr float kExcluded = -std::numeric_limits<float>::infinity();
  std::vector<float> scores = logits;
  for (float& score : scores) score /= parameters.temperature;
  std::vector<size_t> ascending(scores.size());
  std::iota(ascending.begin(), ascending.end(), size_t{0});
  std::stable_sort(ascending.begin(), ascending.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  const float best = scores[ascending.back()];

  if (parameters.top_k > 0 && static_cast<size_t>(parameters.top_k) < scores.size()) {
    const float kth = scores[ascending[scores.size() - static_cast<size_t>(parameters.top_k)]];
    for (float& score : scores) score = score < kth ? kExcluded : score;
  }
  const auto weight = [&](size_t id) { return static_cast<double>(exp_nonpositive(scores[id] - best)); };
  if (parameters.top_p < 1.0f) {
    double total = 0.0;
    for (size_t id : ascending) total += weight(id);
    const auto dropped = static_cast<float>(std::round((1.0 - parameters.top_p) * 1e7) / 1e7);
    double sum = 0.0;
    for (size_t i = 0; i + 1 < ascending.size(); ++i) {
      sum += weight(ascending[i]);
      if (static_cast<float>(sum / total) > dropped) break;
      scores[ascending[i]] = kExcluded;
    }
  }
  for (size_t id = 0; id < scores.size(); ++id) {
    if (weight(id) < static_cast<double>(parameters.min_p)) scores[id] = kExcluded;
  }
  keep_by_information(scores, parameters);
  return scores;
}

/// The exact probabilities of the processed scores.
inline std::vector<double> probabilities_by_definition(const std::vector<float>& logits, const Parameters& parameters) {
  const std::vector<float> scores = scores_by_definition(logits, parameters);
  const double best = *std::max_element(scores.begin(), scores.end());
  std::vector<double> probabilities;
  double total = 0.0;
  for (float score : scores) total += probabilities.emplace_back(std::exp(score - best));
  for (double& probability : probabilities) probability /= total;
  return probabilities;
}

}  // namespace lockstep::sampling
