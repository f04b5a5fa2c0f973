// Exact selection in a few passes over the vocabulary, without a full sort. To find a boundary (the k-th score, the
// last token of the top-p set), scores are counted into bins by their distance from the best one; only the boundary's
// bin is ranked.
//
//   best ─┬──┬──┬──┬──┬──┬─ … ─┬────────────┐
//         │ 0│ 1│ 2│ 3│ 4│     │ the rest   │   bins of 1/64 nat
//         └──┴──┴──┴──┴──┴─ … ─┴────────────┘
//          kept ◄───── ▲ ─────► dropped           the boundary's bin is ranked by (score, id)
//
// Typical sampling uses the distance from the mean information instead of the best score.
#include "runtime/sampling/candidates.h"

#include <algorithm>
#include <cmath>

#include "runtime/core/check.h"
#include "runtime/sampling/exponential.h"

namespace lockstep::sampling {
namespace {

constexpr float kBinsPerNat = 64.0f;

/// The highest of `scores`, ignoring NaN. Eight running maxima avoid a dependency chain.
float highest(std::span<const float> scores) {
  constexpr size_t kLanes = 8;
  std::array<float, kLanes> best;
  best.fill(kExcluded);
  size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      best[lane] = scores[i + lane] > best[lane] ? scores[i + lane] : best[lane];
    }
  }
  for (; i < scores.size(); ++i) best[0] = std::max(best[0], scores[i]);
  return *std::max_element(best.begin(), best.end());
}

}  // namespace

int32_t first_number(std::span<const float> logits) {
  const auto number = std::find_if(logits.begin(), logits.end(), [](float logit) { return !std::isnan(logit); });
  return number == logits.end() ? 0 : static_cast<int32_t>(number - logits.begin());
}

int32_t highest_id(std::span<const float> logits) {
  constexpr size_t kBlock = 1024;  // ids per block; the highest score is then located in its block
  float best = kExcluded;
  std::span<const float> of_best;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::span<const float> block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    const float most = highest(block);
    if (most <= best) continue;
    best = most;
    of_best = block;
  }
  if (of_best.empty()) return first_number(logits);
  return static_cast<int32_t>(&*std::ranges::find(of_best, best) - logits.data());
}

Candidates::Candidates(std::span<const float> logits, std::span<float> scores, Scratch& scratch)
    : scores_(scores), weights_(scratch.weights(), scores.size()), order_(scratch.order()) {
  LOCKSTEP_CHECK(!scores.empty() && static_cast<int64_t>(scores.size()) <= scratch.capacity(), scores.size(),
                 scratch.capacity());
  LOCKSTEP_CHECK(logits.size() == scores.size(), logits.size(), scores.size());
  for (size_t i = 0; i < logits.size(); ++i) scores_[i] = logits[i] == logits[i] ? logits[i] : kExcluded;  // NaN
  best_ = highest(scores_);
}

void Candidates::exclude_all(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < scores_.size()) exclude(static_cast<size_t>(id));
  }
  if (ids.empty()) return;
  best_ = highest(scores_);
  is_weighed_ = false;
}

void Candidates::penalise(std::span<const uint8_t> seen, float penalty) {
  if (penalty == 1.0f) return;
  LOCKSTEP_CHECK(seen.size() == scores_.size(), seen.size(), scores_.size());
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (seen[i] != 0) scores_[i] = scores_[i] < 0.0f ? scores_[i] * penalty : scores_[i] / penalty;
  }
  best_ = highest(scores_);
  is_weighed_ = false;
}

void Candidates::scale(float temperature) {
  LOCKSTEP_CHECK(temperature > 0.0f, temperature);
  is_weighed_ = false;
  const float unscaled_best = best_;
  best_ /= temperature;
  if (std::isfinite(best_)) {
    for (float& score : scores_) score /= temperature;
    return;
  }
  best_ = 0.0f;
  for (float& score : scores_) score = score == unscaled_best ? best_ : kExcluded;
}

size_t Candidates::bin_of(float distance) {
  const float bin = distance * kBinsPerNat;
  return bin < static_cast<float>(kBins - 1) ? static_cast<size_t>(bin) : kBins - 1;
}

template <typename Distance>
std::span<int32_t> Candidates::ids_of(size_t bin, Distance distance) const {
  size_t count = 0;
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] > kExcluded && bin_of(distance(i)) == bin) order_[count++] = static_cast<int32_t>(i);
  }
  return {order_, count};
}

void Candidates::keep_top_k(int32_t k) {
  if (k <= 0 || static_cast<size_t>(k) >= scores_.size()) return;
  std::array<int32_t, kBins> counts{};
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] > kExcluded) ++counts[bin_of(depth_of(i))];
  }
  int32_t place = k;  // rank of the k-th score within its bin, from 1
  size_t bin = 0;
  while (bin < kBins && counts[bin] < place) place -= counts[bin++];
  if (bin == kBins) return;  // fewer than k can be chosen
  const std::span<int32_t> ids = ids_of(bin, [this](size_t id) { return depth_of(id); });
  const auto kth = ids.begin() + (place - 1);
  std::nth_element(ids.begin(), kth, ids.end(), [this](int32_t a, int32_t b) { return score_of(a) > score_of(b); });
  const float threshold = score_of(*kth);
  for (float& score : scores_) score = score < threshold ? kExcluded : score;
  is_weighed_ = false;
}

void Candidates::weigh() {
  if (is_weighed_) return;
  for (size_t i = 0; i < scores_.size(); ++i) weights_[i] = exp_nonpositive(scores_[i] - best_);
  is_weighed_ = true;
}

double Candidates::total_weight() const {
  double total = 0.0;
  for (float weight : weights_) total += weight;
  return total;
}

template <typename Before>
int32_t Candidates::nth(int32_t n, Before comes_first) const {
  size_t count = 0;
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] > kExcluded) order_[count++] = static_cast<int32_t>(i);
  }
  int32_t* const place = order_ + (std::min(static_cast<size_t>(n), count) - 1);
  std::nth_element(order_, place, order_ + count, comes_first);
  return *place;
}

int32_t Candidates::nth_highest(int32_t n) const {
  return nth(n, [this](int32_t a, int32_t b) { return is_lower(b, a); });
}

void Candidates::keep_top_p(float p, int32_t keep) {
  if (p >= 1.0f || is_empty()) return;
  weigh();
  std::array<double, kBins> mass{};
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] > kExcluded) mass[bin_of(depth_of(i))] += weights_[i];
  }
  double total = 0.0;
  for (size_t bin = kBins; bin-- > 0;) total += mass[bin];
  // A float p is accurate to seven decimals: 0.9f means 0.9, so 1 − p is 0.1. Shares are compared in f32, like the
  // cumulative softmax of the definition.
  const auto dropped_share = static_cast<float>(std::round((1.0 - p) * 1e7) * 1e-7);
  const auto is_dropped = [&](double sum) { return static_cast<float>(sum / total) <= dropped_share; };

  double below = 0.0;  // probability mass below the boundary
  size_t bin = kBins - 1;
  while (bin > 0 && is_dropped(below + mass[bin])) below += mass[bin--];
  // Not empty: the bin crosses the boundary, or it is bin 0 with the best score.
  const std::span<int32_t> ids = ids_of(bin, [this](size_t id) { return depth_of(id); });
  std::sort(ids.begin(), ids.end(), [this](int32_t a, int32_t b) { return is_lower(a, b); });
  size_t first_kept = 0;
  while (first_kept + 1 < ids.size()) {
    const double sum = below + weights_[static_cast<size_t>(ids[first_kept])];
    if (!is_dropped(sum)) break;
    below = sum;
    ++first_kept;
  }
  int32_t boundary = ids[first_kept];
  if (keep > 1) boundary = std::min(boundary, nth_highest(keep), [this](auto a, auto b) { return is_lower(a, b); });
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (is_lower(static_cast<int32_t>(i), boundary)) exclude(i);
  }
}

/// The best weight is 1, so a weight is the probability relative to the highest.
void Candidates::keep_min_p(float p, int32_t keep) {
  if (p <= 0.0f || is_empty()) return;
  weigh();
  const float least = std::min(p, 1.0f);
  const int32_t kept = keep > 1 ? nth_highest(keep) : greedy();
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (weights_[i] < least && is_lower(static_cast<int32_t>(i), kept)) exclude(i);
  }
}

double Candidates::mean_depth(double total) const {
  double sum = 0.0;
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (weights_[i] > 0.0f) sum += static_cast<double>(weights_[i]) * depth_of(i);
  }
  return sum / total;
}

/// |information − entropy| equals |depth − mean depth|: the logarithm of the total weight cancels.
void Candidates::keep_typical(float mass, int32_t keep) {
  if (mass >= 1.0f || is_empty()) return;
  weigh();
  const double total = total_weight();
  const auto mean = static_cast<float>(mean_depth(total));
  const auto distance = [&](size_t id) { return std::abs(depth_of(id) - mean); };
  std::array<double, kBins> mass_of{};
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] > kExcluded) mass_of[bin_of(distance(i))] += weights_[i];
  }
  const auto is_enough = [&](double sum) { return static_cast<float>(sum / total) >= mass; };
  double within = 0.0;  // probability mass nearer than the boundary
  size_t bin = 0;
  while (bin < kBins && !is_enough(within + mass_of[bin])) within += mass_of[bin++];
  if (bin == kBins) return;
  const std::span<int32_t> ids = ids_of(bin, distance);
  const auto is_nearer = [&](int32_t a, int32_t b) {
    const float distance_a = distance(static_cast<size_t>(a));
    const float distance_b = distance(static_cast<size_t>(b));
    return distance_a != distance_b ? distance_a < distance_b : a < b;
  };
  std::sort(ids.begin(), ids.end(), is_nearer);
  size_t last = 0;
  while (last + 1 < ids.size()) {
    within += weights_[static_cast<size_t>(ids[last])];
    if (is_enough(within)) break;
    ++last;
  }
  float farthest = distance(static_cast<size_t>(ids[last]));
  if (keep > 1) farthest = std::max(farthest, distance(static_cast<size_t>(nth(keep, is_nearer))));
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] > kExcluded && distance(i) > farthest) exclude(i);
  }
  const float best = highest(scores_);  // the likeliest id is not always typical
  is_weighed_ = best == best_;
  best_ = best;
}

void Candidates::drop_shares_below(float least, int32_t keep) {
  const double total = total_weight();
  const float kept = keep > 1 ? score_of(nth_highest(keep)) : best_;
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (static_cast<float>(weights_[i] / total) < least && scores_[i] < kept) exclude(i);
  }
}

void Candidates::drop_below_epsilon(float epsilon, int32_t keep) {
  if (epsilon <= 0.0f || is_empty()) return;
  weigh();
  drop_shares_below(epsilon, keep);
}

/// e^−entropy = e^−(mean depth) / total weight.
void Candidates::drop_below_eta(float epsilon, int32_t keep) {
  if (epsilon <= 0.0f || is_empty()) return;
  weigh();
  const double total = total_weight();
  const double perplexity_inverse = exp_nonpositive(static_cast<float>(-mean_depth(total))) / total;
  drop_shares_below(std::min(epsilon, static_cast<float>(std::sqrt(epsilon) * perplexity_inverse)), keep);
}

int32_t Candidates::greedy() const {
  return static_cast<int32_t>(std::find(scores_.begin(), scores_.end(), best_) - scores_.begin());
}

int32_t Candidates::draw(float u) {
  weigh();
  const double target = static_cast<double>(u) * total_weight();
  double sum = 0.0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    sum += weights_[i];
    if (sum > target) return static_cast<int32_t>(i);
  }
  LOCKSTEP_CHECK(u < 1.0f, u, target);  // u < 1 ends the loop: the last sum equals the total, bit for bit
  return greedy();
}

}  // namespace lockstep::sampling
