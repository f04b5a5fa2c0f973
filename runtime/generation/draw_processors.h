// Sampling processors, one class each: those of the graphs (`runtime/sampling`), and those that exist only on the host.
// Beam search keeps at least `keep` ids, so that a beam can continue besides the end tokens.
#pragma once

#include <algorithm>

#include "runtime/generation/logits_processor.h"
#include "runtime/sampling/candidates.h"

namespace lockstep::generation {

/// A filter of `sampling::Candidates` as a processor. All filters of a chain share the scratch, because they run one
/// after the other.
template <void (sampling::Candidates::*kFilter)(float, int32_t)>
class ShareFilter final : public LogitsProcessor {
 public:
  ShareFilter(double share, int32_t keep, std::shared_ptr<sampling::Scratch> scratch)
      : share_(static_cast<float>(share)), keep_(keep), scratch_(std::move(scratch)) {}

  void process(std::span<const int32_t>, std::span<float> scores) const override {
    (sampling::Candidates(scores, *scratch_).*kFilter)(share_, keep_);
  }

 private:
  float share_;
  int32_t keep_;
  std::shared_ptr<sampling::Scratch> scratch_;
};

using TopP = ShareFilter<&sampling::Candidates::keep_top_p>;
using MinP = ShareFilter<&sampling::Candidates::keep_min_p>;
using TypicalP = ShareFilter<&sampling::Candidates::keep_typical>;
using EpsilonCutoff = ShareFilter<&sampling::Candidates::drop_below_epsilon>;
using EtaCutoff = ShareFilter<&sampling::Candidates::drop_below_eta>;

/// Divides by a number above 0.
class Temperature final : public LogitsProcessor {
 public:
  Temperature(double temperature, std::shared_ptr<sampling::Scratch> scratch)
      : temperature_(static_cast<float>(temperature)), scratch_(std::move(scratch)) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  float temperature_;
  std::shared_ptr<sampling::Scratch> scratch_;
};

/// Keeps the k highest scores and all ties of the k-th.
class TopK final : public LogitsProcessor {
 public:
  TopK(int32_t k, int32_t keep, std::shared_ptr<sampling::Scratch> scratch)
      : k_(std::max(k, keep)), scratch_(std::move(scratch)) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  int32_t k_;
  std::shared_ptr<sampling::Scratch> scratch_;
};

/// Of the 100 likeliest ids, keeps the first ones while their share of the entropy is at most `share` (Potraghloo et
/// al., 2025), and always the likeliest.
class TopH final : public LogitsProcessor {
 public:
  explicit TopH(double share) : share_(static_cast<float>(share)) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  float share_;
};

/// Replaces scores by logarithms of probabilities.
class Renormalize final : public LogitsProcessor {
 public:
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;
};

}  // namespace lockstep::generation
