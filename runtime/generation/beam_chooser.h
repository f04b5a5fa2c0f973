// Beam search, equivalent to Hugging Face's vectorised version. A step extends all running beams by all tokens. The
// best continuations run on; ended ones replace worse finished beams.
//
//   running beams [B] ─► log-probabilities, processors ─► the best K of B · V continuations
//        ▲                                                 │ unfinished ones      │ ended ones of the first B
//        └─────────────── the best B ◄─────────────────────┘                     ▼
//                                                           finished beams [B], by score / length^penalty
//
// K = B · max(2, 1 + end tokens), so that B can run on even if every end token is among the best.
#pragma once

#include "runtime/generation/choosers.h"

namespace lockstep::generation {

class BeamChooser final : public TokenChooser {
 public:
  static Result<std::unique_ptr<TokenChooser>> make(const ChooserRequest& request);

  int64_t rows() const override { return beams_; }
  std::vector<std::vector<int32_t>> prompts() const override;
  /// With sampling, continuations are drawn without replacement, by inverse CDF in order of (beam, id), and then sorted
  /// by score. Draw d of step s uses random number s · K + d of the row's seed.
  Choice choose(std::span<const float> logits) override;
  std::span<const int32_t> certain() const override { return {}; }
  /// The best `num_return_sequences` finished beams.
  std::vector<Sequence> sequences() const override;

 private:
  struct Beam {
    std::vector<int32_t> ids;  // prompt and output
    std::vector<std::shared_ptr<const TokenRecord>> records;
    float score = 0.0f;                  // running: sum of log-probabilities; finished: divided by the length norm
    std::optional<FinishReason> reason;  // of its end, for a finished beam
  };
  /// A running beam extended by one token.
  struct Continuation {
    size_t beam = 0;
    int32_t token = 0;
    float score = 0.0f;
    std::optional<FinishReason> reason;
  };

  BeamChooser(const ChooserRequest& request, ProcessorChain processors);

  void score(std::span<const float> logits);
  std::vector<Continuation> best_continuations() const;
  std::vector<size_t> draw(size_t count) const;
  std::vector<size_t> highest(size_t count) const;
  Beam extended(const Continuation& continuation, std::span<const float> logits) const;
  void finish(std::span<const Continuation> continuations, std::span<const float> logits);
  std::vector<Continuation> go_on(std::span<const Continuation> continuations) const;
  bool may_improve() const;
  bool is_over(std::span<const Continuation> continuations) const;
  size_t new_tokens() const { return running_.front().ids.size() - prompt_.size(); }
  float length_norm(size_t length) const;

  std::vector<int32_t> prompt_;
  std::vector<int32_t> prefilled_;  // the prompt with its ids of embeddings
  int64_t vocabulary_;
  int64_t beams_;
  size_t returned_;
  size_t continuations_;  // considered per step
  int64_t max_length_;
  double length_penalty_;
  EarlyStopping early_stopping_;
  sampling::Parameters draw_;
  RecordOptions record_;
  ProcessorChain processors_;
  StoppingCriteria stopping_;
  std::vector<Beam> running_;   // [beams]
  std::vector<Beam> finished_;  // [beams], best first; without a reason: a free place
  std::vector<float> scores_;   // [beams, V] processed log-probabilities
  std::vector<float> sums_;     // [beams, V] plus the beams' scores
};

}  // namespace lockstep::generation
