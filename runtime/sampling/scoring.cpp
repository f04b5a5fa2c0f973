#include "runtime/sampling/scoring.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/sampling/exponential.h"

namespace lockstep::sampling {
namespace {

constexpr size_t kLanes = 16;  // parallel sums, so that the compiler can vectorise them

float sum_of(std::array<float, kLanes>& lanes) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace

float log_sum_exp(std::span<const float> logits) {
  const float best = *std::ranges::max_element(logits);
  if (!std::isfinite(best)) return best;
  std::array<float, kLanes> lanes{};
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += exp_nonpositive(logits[i + lane] - best);
  }
  for (size_t i = whole; i < logits.size(); ++i) lanes[i - whole] += exp_nonpositive(logits[i] - best);
  return best + std::log(sum_of(lanes));
}

/// Insertion into a short sorted list; few logits exceed its lowest entry.
void highest_ids(std::span<const float> logits, std::span<int32_t> ids) {
  if (ids.empty()) return;
  size_t count = 0;
  float lowest = -std::numeric_limits<float>::infinity();
  for (size_t id = 0; id < logits.size(); ++id) {
    const float logit = logits[id];
    if (count == ids.size() && !(logit > lowest)) continue;
    size_t place = count < ids.size() ? count++ : count - 1;
    for (; place > 0 && logit > logits[static_cast<size_t>(ids[place - 1])]; --place) ids[place] = ids[place - 1];
    ids[place] = static_cast<int32_t>(id);
    lowest = logits[static_cast<size_t>(ids[count - 1])];
  }
}

void score_row(std::span<const float> logits, int32_t target, std::span<int32_t> ids, std::span<float> row) {
  std::ranges::fill(row, 0.0f);
  if (target < 0) return;
  const float total = log_sum_exp(logits);
  row[0] = logits[static_cast<size_t>(target)] - total;
  highest_ids(logits, ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    row[1 + i] = static_cast<float>(ids[i]);
    row[1 + ids.size() + i] = logits[static_cast<size_t>(ids[i])] - total;
  }
}

}  // namespace lockstep::sampling
