// Token choosers on the host: one row, beam search, guidance by a second prompt.
#pragma once

#include <memory>
#include <optional>

#include "runtime/constraint/constraint.h"
#include "runtime/core/result.h"
#include "runtime/generation/generation_config.h"
#include "runtime/generation/make_processors.h"
#include "runtime/generation/stopping.h"
#include "runtime/generation/token_chooser.h"

namespace lockstep::generation {

/// A request with token choice on the host. Clock and tokenizer outlive the chooser.
struct ChooserRequest {
  GenerationConfig config;               // valid
  std::vector<int32_t> prompt;           // the history that processors and criteria see; may be empty with `prefilled`
  std::vector<int32_t> prefilled = {};   // the prompt with its ids of embeddings; empty: `prompt`
  std::vector<int32_t> negative_prompt;  // for guidance; empty: the prompt's last id
  int64_t vocabulary = 0;
  int64_t max_length = 0;  // of prompt and output: the smaller of the requested and the available length
  uint64_t row = 0;        // index in the job: derives the seed
  const Clock* clock = nullptr;
  const text::Tokenizer* tokenizer = nullptr;  // null: the caller handles stop strings
  int32_t model_top = -1;  // records have the model's own log-probabilities and that many of the likeliest; −1: none
  UserProcessors processors;
  std::vector<std::shared_ptr<const StoppingCriterion>> criteria;
  std::shared_ptr<const constraint::Constraint> constraint = nullptr;  // shared by answers; null: none
};

/// The chooser for the configuration: beams, guidance or one row. Fails with `kInvalidArgument` when an option needs
/// something missing from the request, and with `kUnsupported` for beams with a constraint.
Result<std::unique_ptr<TokenChooser>> make_chooser(ChooserRequest request);

/// What the first row prefills.
inline const std::vector<int32_t>& prefilled_of(const ChooserRequest& request) {
  return request.prefilled.empty() ? request.prompt : request.prefilled;
}

/// The request's part that processors and criteria need.
RequestContext context_of(const ChooserRequest& request);
StoppingCriteria stopping_of(const ChooserRequest& request);

/// A row that grows token by token: scores ─► constraint ─► processors ─► argmax or draw ─► stopping.
class GrowingRow {
 public:
  static Result<GrowingRow> make(const ChooserRequest& request);

  /// Starts the request's time.
  void begin() const { stopping_.begin(); }

  /// Chooses a token from `scores` f32 [V], which it modifies; `logits` are for the record. Returns the token. Fails
  /// with `kFailedPrecondition` when the constraint allows none.
  Result<int32_t> grow(std::span<const float> logits, std::span<float> scores);

  /// Takes tokens that were chosen before. Fails as `grow`.
  Result<void> follow(std::span<const int32_t> tokens);

  const std::vector<int32_t>& ids() const { return ids_; }
  /// The record of the last id; empty if records are off.
  std::vector<std::shared_ptr<const TokenRecord>> last_record() const {
    return records_.empty() ? records_ : std::vector{records_.back()};
  }
  bool is_finished() const { return reason_.has_value(); }
  Sequence sequence() const;

 private:
  GrowingRow(const ChooserRequest& request, ProcessorChain processors, std::unique_ptr<constraint::Matcher> matcher);

  /// The token of processed `scores`; without a selectable one the first number of `logits`.
  int32_t pick(std::span<const float> logits, std::span<float> scores) const;

  sampling::Parameters draw_;
  RecordOptions record_;
  ProcessorChain processors_;
  std::unique_ptr<constraint::Matcher> matcher_;  // null: no constraint
  StoppingCriteria stopping_;
  size_t prompt_length_;
  std::vector<int32_t> ids_;
  std::vector<std::shared_ptr<const TokenRecord>> records_;
  std::shared_ptr<sampling::Scratch> scratch_;  // owned by this row only; shared_ptr makes rows movable
  std::optional<FinishReason> reason_;
};

/// Greedy search and sampling of one row.
class SampledChooser final : public TokenChooser {
 public:
  static Result<std::unique_ptr<TokenChooser>> make(const ChooserRequest& request);

  int64_t rows() const override { return 1; }
  std::vector<std::vector<int32_t>> prompts() const override;
  Result<void> follow(std::span<const int32_t> tokens) override;
  Choice choose(std::span<const float> logits) override;
  std::span<const int32_t> certain() const override { return std::span(row_.ids()).last(1); }
  std::vector<std::shared_ptr<const TokenRecord>> certain_records() const override { return row_.last_record(); }
  std::vector<Sequence> sequences() const override { return {row_.sequence()}; }

 private:
  SampledChooser(std::vector<int32_t> prompt, GrowingRow row) : prompt_(std::move(prompt)), row_(std::move(row)) {}

  std::vector<int32_t> prompt_;
  GrowingRow row_;
  std::vector<float> scores_;
};

/// Classifier-free guidance (Sanchez et al., 2023): row 0 follows the prompt, row 1 the negative prompt. Both continue
/// with the token chosen from  scale · (log p₀ − log p₁) + log p₁.
class GuidedChooser final : public TokenChooser {
 public:
  static Result<std::unique_ptr<TokenChooser>> make(const ChooserRequest& request);

  int64_t rows() const override { return 2; }
  std::vector<std::vector<int32_t>> prompts() const override;
  Result<void> follow(std::span<const int32_t> tokens) override;
  Choice choose(std::span<const float> logits) override;
  std::span<const int32_t> certain() const override { return std::span(row_.ids()).last(1); }
  std::vector<std::shared_ptr<const TokenRecord>> certain_records() const override { return row_.last_record(); }
  std::vector<Sequence> sequences() const override { return {row_.sequence()}; }

 private:
  GuidedChooser(const ChooserRequest& request, GrowingRow row);

  std::vector<int32_t> prompt_;
  std::vector<int32_t> negative_prompt_;
  float scale_;
  GrowingRow row_;
  std::vector<float> scores_;  // [2, V]
};

}  // namespace lockstep::generation
