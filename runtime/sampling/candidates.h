// The scores of one choice on their way through the processors that draw from a part of the vocabulary, in place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "runtime/sampling/sampling.h"

namespace lockstep::sampling {

/// The score of an id that cannot be chosen.
inline constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// What is chosen when nothing can be: the lowest id that is not NaN, or 0.
int32_t first_number(std::span<const float> logits);

/// What is chosen greedily where nothing changes the scores: the highest of `logits`, f32 [V], in one pass; ties go to
/// the lowest id, NaN is passed over, and where nothing can be chosen it is `first_number`.
int32_t highest_id(std::span<const float> logits);

/// Scores by id, f32 [V]; NaN becomes `kExcluded`. The filters are those of Hugging Face, edge cases included; `keep`
/// ids stay whatever their share. Borrows the scores and the scratch, which it needs alone. Does not allocate.
class Candidates {
 public:
  Candidates(std::span<float> scores, Scratch& scratch) : Candidates(scores, scores, scratch) {}
  /// The same from `logits`, which are copied into `scores`.
  Candidates(std::span<const float> logits, std::span<float> scores, Scratch& scratch);

  /// Ids outside the vocabulary are passed over.
  void exclude_all(std::span<const int32_t> ids);
  /// Scores of ids that were seen (u8 [V]): times `penalty` below 0, else divided by it.
  void penalise(std::span<const uint8_t> seen, float penalty);
  /// Divides by `temperature`, above 0. Where a score is infinite, or becomes so, only the highest remain, all alike.
  void scale(float temperature);
  /// The k highest scores and all ties of the k-th; 0: all.
  void keep_top_k(int32_t k);
  /// Drops ascending shares up to 1 − p.
  void keep_top_p(float p, int32_t keep = 1);
  /// Drops probabilities below p times the highest.
  void keep_min_p(float p, int32_t keep = 1);
  /// Keeps those whose information is nearest to the entropy, up to a share of `mass` (Meister et al., 2022).
  void keep_typical(float mass, int32_t keep = 1);
  /// Drops probabilities below `epsilon` (Hewitt et al., 2022); 0: none.
  void drop_below_epsilon(float epsilon, int32_t keep = 1);
  /// Drops probabilities below min(epsilon, √epsilon · e^−entropy) (the same); 0: none.
  void drop_below_eta(float epsilon, int32_t keep = 1);

  /// Nothing can be chosen.
  bool is_empty() const { return best_ == kExcluded; }
  /// The highest score, ties to the lowest id.
  int32_t greedy() const;
  /// The first id, in order of id, at which the sum of the weights passes u times their total. Sums are f64.
  int32_t draw(float u);

 private:
  static constexpr size_t kBins = 2048;

  /// weights = exp(score − best), unless they are up to date.
  void weigh();
  double total_weight() const;
  /// Σ share · (best − score): the entropy less the logarithm of the total weight.
  double mean_depth(double total) const;
  void exclude(size_t id) {
    scores_[id] = kExcluded;
    weights_[id] = 0.0f;
  }
  /// Drops what has a lower share than `least` and a lower score than the `keep` highest.
  void drop_shares_below(float least, int32_t keep);
  /// The `n`-th of the ids that can be chosen, at least one, in the order of `comes_first`; the last where there are
  /// fewer. Invalidates what `ids_of` gave.
  template <typename Before>
  int32_t nth(int32_t n, Before comes_first) const;
  int32_t nth_highest(int32_t n) const;
  /// Monotone: a higher distance is never in an earlier bin.
  static size_t bin_of(float distance);
  /// The ids whose `distance` is in `bin`, in order of id; valid until the next call.
  template <typename Distance>
  std::span<int32_t> ids_of(size_t bin, Distance distance) const;
  float depth_of(size_t id) const { return best_ - scores_[id]; }
  float score_of(int32_t id) const { return scores_[static_cast<size_t>(id)]; }
  bool is_lower(int32_t a, int32_t b) const { return score_of(a) != score_of(b) ? score_of(a) < score_of(b) : a < b; }

  std::span<float> scores_;
  std::span<float> weights_;
  int32_t* order_;
  float best_ = kExcluded;
  bool is_weighed_ = false;
};

}  // namespace lockstep::sampling
