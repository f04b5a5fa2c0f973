#include "runtime/generation/draw_processors.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/generation/log_softmax.h"

namespace lockstep::generation {

void Temperature::process(std::span<const int32_t>, std::span<float> scores) const {
  sampling::Candidates candidates(scores, *scratch_);
  if (!candidates.is_empty()) candidates.scale(temperature_);
}

void TopK::process(std::span<const int32_t>, std::span<float> scores) const {
  sampling::Candidates(scores, *scratch_).keep_top_k(k_);
}

void TopH::process(std::span<const int32_t>, std::span<float> scores) const {
  constexpr size_t kMost = 100;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t most = std::min(kMost, order.size());
  const auto is_likelier = [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; };
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(most), order.end(), is_likelier);

  std::vector<float> logs;
  for (size_t i = 0; i < most; ++i) logs.push_back(scores[order[i]]);
  log_softmax(logs);
  std::vector<float> parts;  // −p·log p of the likeliest ids; NaN where p is 0, for which every comparison is false
  double entropy = 0.0;
  for (const float log : logs) {
    parts.push_back(-std::exp(log) * log);
    if (!std::isnan(parts.back())) entropy += parts.back();
  }
  const auto threshold = static_cast<float>(entropy) * share_;
  double sum = parts[0];
  size_t kept = 1;
  while (kept < most && static_cast<float>(sum + parts[kept]) <= threshold) sum += parts[kept++];
  for (size_t i = kept; i < order.size(); ++i) scores[order[i]] = sampling::kExcluded;
}

void Renormalize::process(std::span<const int32_t>, std::span<float> scores) const { log_softmax(scores); }

}  // namespace lockstep::generation
