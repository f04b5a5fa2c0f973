// Processors to forbid, force or favour ids, by row length, list or function.
#pragma once

#include <functional>
#include <set>

#include "runtime/generation/generation_config.h"
#include "runtime/generation/logits_processor.h"

namespace lockstep::generation {

/// Excludes the end tokens while the row is shorter than `length`, including the prompt.
class MinLength final : public LogitsProcessor {
 public:
  MinLength(int64_t length, std::vector<int32_t> eos) : length_(length), eos_(std::move(eos)) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  int64_t length_;
  std::vector<int32_t> eos_;
};

/// Returns the ids that may follow `ids`, at least one; `request` is the caller's number of the request.
using AllowedTokens = std::function<std::vector<int32_t>(int64_t request, std::span<const int32_t> ids)>;

/// Excludes all ids except the allowed ones. If all of these were already excluded in every row, they get the score 0.
class PrefixAllowed final : public LogitsProcessor {
 public:
  PrefixAllowed(AllowedTokens allowed, int64_t request) : allowed_(std::move(allowed)), request_(request) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;
  void process_rows(std::span<const std::vector<int32_t>> rows, std::span<float> scores) const override;

 private:
  std::vector<int32_t> allowed_after(std::span<const int32_t> ids, size_t vocabulary) const;

  AllowedTokens allowed_;
  int64_t request_;
};

/// Makes `id` the only choice after a prompt with one id.
class ForcedFirst final : public LogitsProcessor {
 public:
  explicit ForcedFirst(int32_t id) : id_(id) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  int32_t id_;
};

/// Makes `ids` the only choices for the last token of a row with at most `max_length` ids.
class ForcedLast final : public LogitsProcessor {
 public:
  ForcedLast(int64_t max_length, std::vector<int32_t> ids) : max_length_(max_length), ids_(std::move(ids)) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  int64_t max_length_;
  std::vector<int32_t> ids_;
};

/// Replaces NaN by 0, infinities by the largest finite numbers.
class RemoveInvalid final : public LogitsProcessor {
 public:
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;
};

/// Adds |score| · (factor^n − 1) to the end tokens, n tokens after `decay.start` new ones.
class LengthDecayPenalty final : public LogitsProcessor {
 public:
  LengthDecayPenalty(LengthDecay decay, int64_t prompt_length, const std::vector<int32_t>& eos)
      : decay_(decay), prompt_length_(prompt_length), eos_(eos.begin(), eos.end()) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  LengthDecay decay_;
  int64_t prompt_length_;
  std::set<int32_t> eos_;  // a repeated id counts once, as in transformers
};

/// Excludes the given ids.
class Suppress final : public LogitsProcessor {
 public:
  explicit Suppress(std::vector<int32_t> ids) : ids_(std::move(ids)) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  std::vector<int32_t> ids_;
};

/// Excludes the given ids at position `begin` of the row only.
class SuppressAtBegin final : public LogitsProcessor {
 public:
  SuppressAtBegin(std::vector<int32_t> ids, int64_t begin) : ids_(std::move(ids)), begin_(begin) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  std::vector<int32_t> ids_;
  int64_t begin_;
};

}  // namespace lockstep::generation
