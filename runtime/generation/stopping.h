// Stopping criteria of a row, checked after every token. The first criterion that is met gives the reason.
//
//   end token ─ length ─ time ─ stop strings ─ users' criteria
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/generation/finish_reason.h"
#include "runtime/generation/generation_config.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::generation {

/// Used by one thread at a time. Depends only on the row, because beam search checks many rows in turn.
class StoppingCriterion {
 public:
  virtual ~StoppingCriterion() = default;

  /// Called when a request with this criterion begins. Most criteria ignore it.
  virtual void begin() const {}
  /// Whether a row ends after `ids`, its prompt and output. The last id was chosen from `scores` f32 [V].
  virtual bool is_met(std::span<const int32_t> ids, std::span<const float> scores) const = 0;
  /// The finish reason of a row that meets the criterion.
  virtual FinishReason reason() const = 0;
};

/// Met when the row has at least `length` ids, including the prompt.
class MaxLength final : public StoppingCriterion {
 public:
  explicit MaxLength(int64_t length) : length_(length) {}
  bool is_met(std::span<const int32_t> ids, std::span<const float> scores) const override;
  FinishReason reason() const override { return FinishReason::kLength; }

 private:
  int64_t length_;
};

/// Met when more than `limit` has passed since the start of the first request with this criterion. Borrows its clock.
class MaxTime final : public StoppingCriterion {
 public:
  MaxTime(const Clock& clock, Duration limit) : clock_(&clock), limit_(limit) {}
  void begin() const override;
  bool is_met(std::span<const int32_t> ids, std::span<const float> scores) const override;
  FinishReason reason() const override { return FinishReason::kStop; }

 private:
  const Clock* clock_;
  Duration limit_;
  mutable std::optional<TimePoint> start_;
};

/// Met when the last id is an end token.
class EndToken final : public StoppingCriterion {
 public:
  explicit EndToken(std::vector<int32_t> eos) : eos_(std::move(eos)) {}
  bool is_met(std::span<const int32_t> ids, std::span<const float> scores) const override;
  FinishReason reason() const override { return FinishReason::kEos; }

 private:
  std::vector<int32_t> eos_;
};

/// Met when a stop string ends in the text of the last id; it may start in any earlier id, also in the prompt. Compares
/// bytes. For streamed text use `StopStrings`, which also determines how much may be shown.
class StopText final : public StoppingCriterion {
 public:
  /// The tokenizer outlives the criterion.
  StopText(const text::Tokenizer& tokenizer, std::vector<std::string> stops);
  bool is_met(std::span<const int32_t> ids, std::span<const float> scores) const override;
  FinishReason reason() const override { return FinishReason::kStop; }

 private:
  const text::Tokenizer* tokenizer_;
  std::vector<std::string> stops_;
  size_t longest_ = 0;
};

/// All criteria of a request. Shared, because users pass the same one to many requests.
class StoppingCriteria {
 public:
  void add(std::shared_ptr<const StoppingCriterion> criterion) { criteria_.push_back(std::move(criterion)); }
  /// Adds users' criteria. One with the type of an existing criterion replaces it.
  void merge(std::span<const std::shared_ptr<const StoppingCriterion>> users);

  /// Starts the request's time.
  void begin() const;
  /// The finish reason of the row after `ids`; empty if the row continues.
  std::optional<FinishReason> check(std::span<const int32_t> ids, std::span<const float> scores = {}) const;

 private:
  std::vector<std::shared_ptr<const StoppingCriterion>> criteria_;
};

/// The input of stopping besides the configuration. Borrows clock and tokenizer.
struct StoppingContext {
  int64_t max_length = 0;  // of a row, including the prompt
  const Clock* clock = nullptr;
  const text::Tokenizer* tokenizer = nullptr;  // null: the caller handles stop strings
  std::vector<std::shared_ptr<const StoppingCriterion>> users;
};

/// The criteria for a configuration.
StoppingCriteria make_stopping(const GenerationConfig& config, const StoppingContext& context);

}  // namespace lockstep::generation
