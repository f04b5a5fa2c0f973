#include "runtime/generation/log_softmax.h"

#include <algorithm>
#include <cmath>

namespace lockstep::generation {

double log_sum_exp(std::span<const float> scores) {
  const float best = *std::ranges::max_element(scores);
  if (!std::isfinite(best)) return best;
  double sum = 0.0;
  for (const float score : scores) sum += std::exp(score - best);
  return best + std::log(sum);
}

void log_softmax(std::span<float> scores) {
  const double total = log_sum_exp(scores);
  for (float& score : scores) score = static_cast<float>(score - total);
}

}  // namespace lockstep::generation
