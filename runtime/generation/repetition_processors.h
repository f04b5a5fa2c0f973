// Processors of ids, or runs of ids, already in the row.
#pragma once

#include <string_view>

#include "runtime/core/result.h"
#include "runtime/generation/generation_config.h"
#include "runtime/generation/logits_processor.h"

namespace lockstep::generation {

/// Multiplies scores of ids in the row by `penalty` if negative, divides them otherwise (Keskar et al., 2019).
class RepetitionPenalty final : public LogitsProcessor {
 public:
  /// The first `ignored` ids of a row are not penalised.
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

/// Subtracts `presence`, and `frequency` for each occurrence, from the scores of ids behind the prompt (OpenAI's API).
class AnswerPenalty final : public LogitsProcessor {
 public:
  /// `prompt`: the number of its ids.
  AnswerPenalty(double presence, double frequency, size_t prompt)
      : presence_(static_cast<float>(presence)), frequency_(static_cast<float>(frequency)), prompt_(prompt) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  float presence_;
  float frequency_;
  size_t prompt_;
};

/// Excludes ids that would repeat a run of `size` ids of the row.
class NoRepeatNgram final : public LogitsProcessor {
 public:
  explicit NoRepeatNgram(size_t size) : size_(size) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  size_t size_;
};

/// Excludes ids that would repeat a run of `size` ids of the prompt.
class NoPromptNgram final : public LogitsProcessor {
 public:
  NoPromptNgram(size_t size, std::span<const int32_t> prompt) : size_(size), prompt_(prompt.begin(), prompt.end()) {}
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  size_t size_;
  std::vector<int32_t> prompt_;
};

/// Adds a bias to the last id of each sequence if the row ends with the other ids.
class SequenceBias final : public LogitsProcessor {
 public:
  /// Of equal sequences the last one is used.
  explicit SequenceBias(std::span<const BiasedSequence> sequences);
  void process(std::span<const int32_t> ids, std::span<float> scores) const override;

 private:
  std::vector<BiasedSequence> sequences_;  // by length, then as given
};

/// Excludes the last id of each sequence if the row ends with the other ids. Single end tokens are ignored, because
/// otherwise only a length could end a row.
class BadWords final : public LogitsProcessor {
 public:
  BadWords(std::span<const std::vector<int32_t>> words, std::span<const int32_t> eos);
  void process(std::span<const int32_t> ids, std::span<float> scores) const override { bias_.process(ids, scores); }

 private:
  SequenceBias bias_;
};

}  // namespace lockstep::generation
