// The scores of one draw, modified in place by the sampling processors.
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

/// The choice when no id can be chosen: the lowest id that is not NaN, or 0.
int32_t first_number(std::span<const float> logits);

/// The greedy choice without processors: the id of the highest of `logits`, f32 [V], in one pass. Ties go to the lowest
/// id and NaN is ignored; if no id can be chosen, `first_number`.
int32_t highest_id(std::span<const float> logits);

/// Scores by id, f32 [V]; NaN becomes `kExcluded`. The filters match those of Hugging Face, edge cases included. At
/// least the best `keep` ids stay. Borrows the scores and the scratch exclusively. Does not allocate.
class Candidates {
 public:
  Candidates(std::span<float> scores, Scratch& scratch) : Candidates(scores, scores, scratch) {}
  /// Copies `logits` into `scores`.
  Candidates(std::span<const float> logits, std::span<float> scores, Scratch& scratch);

  /// Ids outside the vocabulary are ignored.
  void exclude_all(std::span<const int32_t> ids);
  /// Multiplies scores of seen ids (`seen` is u8 [V]) by `penalty` if negative, divides them by it otherwise.
  void penalise(std::span<const uint8_t> seen, float penalty);
  /// Divides by `temperature`, above 0. If a score is or becomes infinite, only the highest remain, with equal scores.
  void scale(float temperature);
  /// Keeps the k highest scores and all ties of the k-th; 0: all.
  void keep_top_k(int32_t k);
  /// Drops the lowest probabilities, up to a total of 1 − p.
  void keep_top_p(float p, int32_t keep = 1);
  /// Drops probabilities below p times the highest.
  void keep_min_p(float p, int32_t keep = 1);
  /// Keeps the ids with information nearest to the entropy, up to a total probability `mass` (Meister et al., 2022).
  void keep_typical(float mass, int32_t keep = 1);
  /// Drops probabilities below `epsilon` (Hewitt et al., 2022); 0: none.
  void drop_below_epsilon(float epsilon, int32_t keep = 1);
  /// Drops probabilities below min(epsilon, √epsilon · e^−entropy) (Hewitt et al., 2022); 0: none.
  void drop_below_eta(float epsilon, int32_t keep = 1);

  /// Whether no id can be chosen.
  bool is_empty() const { return best_ == kExcluded; }
  /// The highest score, ties to the lowest id.
  int32_t greedy() const;
  /// The first id, in order of id, whose cumulative weight exceeds u times the total. Sums are f64.
  int32_t draw(float u);

 private:
  static constexpr size_t kBins = 2048;

  /// Computes weights = exp(score − best), unless they are up to date.
  void weigh();
  double total_weight() const;
  /// Σ probability · (best − score): the entropy minus the logarithm of the total weight.
  double mean_depth(double total) const;
  void exclude(size_t id) {
    scores_[id] = kExcluded;
    weights_[id] = 0.0f;
  }
  /// Drops ids with a probability below `least`, except the `keep` highest.
  void drop_shares_below(float least, int32_t keep);
  /// The `n`-th selectable id in the order of `comes_first`, or the last one if there are fewer; there is at least one.
  /// Invalidates the result of `ids_of`.
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
