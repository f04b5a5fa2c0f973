// Processors that look at which ids or runs of ids came before.
#pragma once

#include <string_view>

#include "runtime/core/result.h"
#include "runtime/generation/generation_config.h"
#include "runtime/generation/logits_processor.h"

namespace lockstep::generation {

/// Scores of ids that came before: times `penalty` below 0, else divided by it (Keskar et al., 2019).
class RepetitionPenalty final : public LogitsProcessor {
 public:
  /// The first `ignored` ids of a row do not count.
  explicit RepetitionPenalty(double penalty, size_t ignored = 0)
      : penalty_(static_cast<float>(penalty)), ignored_(ignored) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  float penalty_;
  size_t ignored_;
};

/// Raises the scores of the prompt's ids: the inverse of a repetition penalty.
class PromptPenalty final : public LogitsProcessor {
 public:
  PromptPenalty(double penalty, std::span<const int32_t> prompt);
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  float penalty_;
  std::vector<int32_t> prompt_;  // each id once
};

/// Excludes what would repeat a run of `size` ids of the row.
class NoRepeatNgram final : public LogitsProcessor {
 public:
  explicit NoRepeatNgram(size_t size) : size_(size) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  size_t size_;
};

/// Excludes what would repeat a run of `size` ids of the prompt.
class NoPromptNgram final : public LogitsProcessor {
 public:
  NoPromptNgram(size_t size, std::span<const int32_t> prompt) : size_(size), prompt_(prompt.begin(), prompt.end()) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  size_t size_;
  std::vector<int32_t> prompt_;
};

/// Adds a bias to the last id of each sequence whose other ids end the row.
class SequenceBias final : public LogitsProcessor {
 public:
  /// Of equal sequences the last counts.
  explicit SequenceBias(std::span<const BiasedSequence> sequences);
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  std::vector<BiasedSequence> sequences_;  // by length, then as given
};

/// Excludes the last id of each sequence whose other ids end the row. Lone end tokens are passed over: only a length
/// could then end a row.
class BadWords final : public LogitsProcessor {
 public:
  BadWords(std::span<const std::vector<int32_t>> words, std::span<const int32_t> eos);
  void process(std::span<const int32_t> ids, std::span<float> scores) const override { bias_.process(ids, scores); }

 private:
  SequenceBias bias_;
};

}  // namespace lockstep::generation
