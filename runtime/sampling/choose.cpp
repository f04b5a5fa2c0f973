// Exact selection in a few passes over the vocabulary. Where a full sort would find a boundary (the k-th score, the
// last token of the top-p set), scores are counted into bins by their distance from the best one; only the bin that
// holds the boundary is ranked.
//
//   best ─┬──┬──┬──┬──┬──┬─ … ─┬────────────┐
//         │ 0│ 1│ 2│ 3│ 4│     │ the rest   │   bins of 1/64 nat
//         └──┴──┴──┴──┴──┴─ … ─┴────────────┘
//          kept ◄───── ▲ ─────► dropped           the boundary's bin is ranked by (score, id)
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "runtime/core/check.h"
#include "runtime/core/hash.h"
#include "runtime/sampling/exponential.h"
#include "runtime/sampling/sampling.h"

namespace lockstep::sampling {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr size_t kBins = 2048;
constexpr float kBinsPerNat = 64.0f;

/// The highest of `scores`, none of which is NaN. Eight running maxima, because one would wait for itself.
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

/// The scores of one choice, by id, on their way through the processors.
class Candidates {
 public:
  Candidates(std::span<float> scores, Scratch& scratch)
      : scores_(scores), weights_(scratch.weights(), scores.size()), order_(scratch.order()) {}

  void penalise(std::span<const float> logits, std::span<const uint8_t> seen, float penalty);
  void scale(float temperature);
  void keep_top_k(int32_t k);
  /// weights = exp(score − best); the processors below read them and keep them up to date.
  void weigh();
  void keep_top_p(float p);
  void keep_min_p(float p);

  /// Nothing can be chosen: every score is −inf (or was NaN).
  bool is_empty() const { return best_ == kExcluded; }
  /// The highest score, ties to the lowest id.
  int32_t greedy() const;
  /// The first id, in order of id, at which the sum of the weights passes u times their total. Sums are f64.
  int32_t draw(float u) const;

 private:
  void exclude(size_t id) {
    scores_[id] = kExcluded;
    weights_[id] = 0.0f;
  }
  /// Monotone: a lower score is never in an earlier bin.
  size_t bin_of(float score) const {
    const float bin = (best_ - score) * kBinsPerNat;
    return bin < static_cast<float>(kBins - 1) ? static_cast<size_t>(bin) : kBins - 1;
  }
  /// The ids whose scores are in `bin`, in order of id; in the scratch until the next call.
  std::span<int32_t> ids_of(size_t bin) const;
  bool is_lower(int32_t a, int32_t b) const {
    const float score_a = score_of(a);
    const float score_b = score_of(b);
    return score_a != score_b ? score_a < score_b : a < b;
  }
  float score_of(int32_t id) const { return scores_[static_cast<size_t>(id)]; }

  std::span<float> scores_;
  std::span<float> weights_;
  int32_t* order_;
  float best_ = kExcluded;
};

void Candidates::penalise(std::span<const float> logits, std::span<const uint8_t> seen, float penalty) {
  for (size_t i = 0; i < logits.size(); ++i) scores_[i] = logits[i] == logits[i] ? logits[i] : kExcluded;  // NaN
  if (penalty != 1.0f) {
    LOCKSTEP_CHECK(seen.size() == logits.size(), seen.size(), logits.size());
    for (size_t i = 0; i < scores_.size(); ++i) {
      if (seen[i] != 0) scores_[i] = scores_[i] < 0.0f ? scores_[i] * penalty : scores_[i] / penalty;
    }
  }
  best_ = highest(scores_);
}

/// Where a score is infinite, or becomes so at a tiny temperature, only the highest remain, all alike.
void Candidates::scale(float temperature) {
  LOCKSTEP_CHECK(temperature > 0.0f, temperature);
  const float unscaled_best = best_;
  best_ /= temperature;
  if (std::isfinite(best_)) {
    for (float& score : scores_) score /= temperature;
    return;
  }
  best_ = 0.0f;
  for (float& score : scores_) score = score == unscaled_best ? best_ : kExcluded;
}

std::span<int32_t> Candidates::ids_of(size_t bin) const {
  size_t count = 0;
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] > kExcluded && bin_of(scores_[i]) == bin) order_[count++] = static_cast<int32_t>(i);
  }
  return {order_, count};
}

void Candidates::keep_top_k(int32_t k) {
  if (k <= 0 || static_cast<size_t>(k) >= scores_.size()) return;
  std::array<int32_t, kBins> counts{};
  for (float score : scores_) {
    if (score > kExcluded) ++counts[bin_of(score)];
  }
  int32_t place = k;  // of the k-th score within its bin, from 1
  size_t bin = 0;
  while (bin < kBins && counts[bin] < place) place -= counts[bin++];
  if (bin == kBins) return;  // fewer than k can be chosen
  const std::span<int32_t> ids = ids_of(bin);
  const auto kth = ids.begin() + (place - 1);
  std::nth_element(ids.begin(), kth, ids.end(), [this](int32_t a, int32_t b) { return score_of(a) > score_of(b); });
  const float threshold = score_of(*kth);
  for (float& score : scores_) score = score < threshold ? kExcluded : score;
}

void Candidates::weigh() {
  for (size_t i = 0; i < scores_.size(); ++i) weights_[i] = exp_nonpositive(scores_[i] - best_);
}

void Candidates::keep_top_p(float p) {
  if (p >= 1.0f) return;
  std::array<double, kBins> mass{};
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] > kExcluded) mass[bin_of(scores_[i])] += weights_[i];
  }
  double total = 0.0;
  for (size_t bin = kBins; bin-- > 0;) total += mass[bin];
  // An f32 holds p to seven decimals: 0.9f stands for 0.9, so 1 − p is 0.1. Shares are compared in f32, as the
  // cumulative softmax of the definition is.
  const auto dropped_share = static_cast<float>(std::round((1.0 - p) * 1e7) * 1e-7);
  const auto is_dropped = [&](double sum) { return static_cast<float>(sum / total) <= dropped_share; };

  double below = 0.0;  // the mass of all that is lower than the boundary
  size_t bin = kBins - 1;
  while (bin > 0 && is_dropped(below + mass[bin])) below += mass[bin--];
  const std::span<int32_t> ids = ids_of(bin);  // not empty: it crosses the boundary, or it is bin 0 with the best
  std::sort(ids.begin(), ids.end(), [this](int32_t a, int32_t b) { return is_lower(a, b); });
  size_t first_kept = 0;
  while (first_kept + 1 < ids.size()) {
    const double sum = below + weights_[static_cast<size_t>(ids[first_kept])];
    if (!is_dropped(sum)) break;
    below = sum;
    ++first_kept;
  }
  const int32_t boundary = ids[first_kept];
  const float threshold = score_of(boundary);
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] < threshold || (scores_[i] == threshold && static_cast<int32_t>(i) < boundary)) exclude(i);
  }
}

/// The best weight is 1, so a weight is the probability as a share of the highest.
void Candidates::keep_min_p(float p) {
  if (p <= 0.0f) return;
  const float lowest = std::min(p, 1.0f);
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (weights_[i] < lowest) exclude(i);
  }
}

int32_t Candidates::greedy() const {
  return static_cast<int32_t>(std::find(scores_.begin(), scores_.end(), best_) - scores_.begin());
}

int32_t Candidates::draw(float u) const {
  double total = 0.0;
  for (float weight : weights_) total += weight;
  const double target = static_cast<double>(u) * total;
  double sum = 0.0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    sum += weights_[i];
    if (sum > target) return static_cast<int32_t>(i);
  }
  LOCKSTEP_CHECK(u < 1.0f, u, total);  // the last sum is the total, bit for bit
  return greedy();
}

void process(Candidates& candidates, std::span<const float> logits, std::span<const uint8_t> seen,
             const Parameters& parameters) {
  candidates.penalise(logits, seen, parameters.repetition_penalty);
  if (!parameters.do_sample || candidates.is_empty()) return;
  candidates.scale(parameters.temperature);
  candidates.keep_top_k(parameters.top_k);
  candidates.weigh();
  candidates.keep_top_p(parameters.top_p);
  candidates.keep_min_p(parameters.min_p);
}

}  // namespace

Scratch::Scratch(int64_t capacity)
    : scores_(static_cast<size_t>(capacity)),
      weights_(static_cast<size_t>(capacity)),
      order_(static_cast<size_t>(capacity)) {}

int32_t choose(std::span<const float> logits, std::span<const uint8_t> seen, const Parameters& parameters,
               uint32_t output_index, Scratch& scratch) {
  LOCKSTEP_CHECK(!logits.empty() && static_cast<int64_t>(logits.size()) <= scratch.capacity(), logits.size(),
                 scratch.capacity());
  Candidates candidates({scratch.scores(), logits.size()}, scratch);
  process(candidates, logits, seen, parameters);
  if (candidates.is_empty()) {
    const auto number = std::find_if(logits.begin(), logits.end(), [](float logit) { return !std::isnan(logit); });
    return number == logits.end() ? 0 : static_cast<int32_t>(number - logits.begin());
  }
  return parameters.do_sample ? candidates.draw(uniform(parameters.seed, output_index)) : candidates.greedy();
}

void processed_scores(std::span<const float> logits, std::span<const uint8_t> seen, const Parameters& parameters,
                      std::span<float> dst, Scratch& scratch) {
  LOCKSTEP_CHECK(!logits.empty() && logits.size() == dst.size(), logits.size(), dst.size());
  LOCKSTEP_CHECK(static_cast<int64_t>(logits.size()) <= scratch.capacity(), logits.size(), scratch.capacity());
  Candidates candidates(dst, scratch);
  process(candidates, logits, seen, parameters);
}

uint32_t fingerprint(const Parameters& parameters) {
  Fingerprint hash;
  hash.add(static_cast<uint8_t>(parameters.do_sample)).add(parameters.temperature).add(parameters.top_k);
  hash.add(parameters.top_p).add(parameters.min_p).add(parameters.repetition_penalty).add(parameters.seed);
  return static_cast<uint32_t>(hash.value() ^ hash.value() >> 32);
}

}  // namespace lockstep::sampling
