// When a row ends. Criteria are asked after every token and OR-ed; the first that says so gives the reason.
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

/// Used by one thread at a time. Depends on the row alone: with beams many rows are asked about in turn.
class StoppingCriterion {
 public:
  virtual ~StoppingCriterion() = default;

  /// A request that has the criterion begins now. Most do not care.
  virtual void begin() const {}
  /// Whether a row ends after `ids`, its prompt and output. `scores` f32 [V] are those that the last id was chosen
  /// from.
  virtual bool is_met(std::span<const int32_t> ids, std::span<const float> scores) const = 0;
  /// Why a row ended that met it.
  virtual FinishReason reason() const = 0;
};

/// The row has `length` ids or more, prompt included.
class MaxLength final : public StoppingCriterion {
 public:
  explicit MaxLength(int64_t length) : length_(length) {}
  bool is_met(std::span<const int32_t> ids, std::span<const float> scores) const override;
  FinishReason reason() const override { return FinishReason::kLength; }

 private:
  int64_t length_;
};

/// More than `limit` has passed since a request that has it began (the first one, if many do). Borrows its clock.
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

/// The last id is an end token.
class EndToken final : public StoppingCriterion {
 public:
  explicit EndToken(std::vector<int32_t> eos) : eos_(std::move(eos)) {}
  bool is_met(std::span<const int32_t> ids, std::span<const float> scores) const override;
  FinishReason reason() const override { return FinishReason::kEos; }

 private:
  std::vector<int32_t> eos_;
};

/// A stop string ends in the text of the last id; it may begin in any id before, also of the prompt. Compares bytes.
/// Where text is shown as it is made use `StopStrings`, which also says how much may be shown.
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

/// All criteria of a request. Shared, because users hand the same one to many requests.
class StoppingCriteria {
 public:
  void add(std::shared_ptr<const StoppingCriterion> criterion) { criteria_.push_back(std::move(criterion)); }
  /// Users' criteria: one of the same type as one that is there takes its place, the others follow.
  void merge(std::span<const std::shared_ptr<const StoppingCriterion>> users);

  /// The request begins now.
  void begin() const;
  /// Why the row ends after `ids`; empty when it goes on.
  std::optional<FinishReason> check(std::span<const int32_t> ids, std::span<const float> scores = {}) const;

 private:
  std::vector<std::shared_ptr<const StoppingCriterion>> criteria_;
};

/// What stopping needs beside the configuration. Borrows clock and tokenizer.
struct StoppingContext {
  int64_t max_length = 0;  // of a row, prompt included
  const Clock* clock = nullptr;
  const text::Tokenizer* tokenizer = nullptr;  // null: stop strings are the caller's
  std::vector<std::shared_ptr<const StoppingCriterion>> users;
};

/// The criteria that a configuration asks for.
StoppingCriteria make_stopping(const GenerationConfig& config, const StoppingContext& context);

}  // namespace lockstep::generation
