// What an answer tells of one of its tokens, beside its id.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/generation/generation_config.h"

namespace lockstep::generation {

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0.0f;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

/// Log-probabilities are those of the processed scores, which the token was chosen from.
struct TokenRecord {
  float logprob = 0.0f;           // of the token
  std::vector<TokenLogprob> top;  // the likeliest, in falling order, ties by id
  std::vector<float> scores;      // [V] processed; with `output_scores`
  std::vector<float> logits;      // [V] raw; with `output_logits`
};

/// Which parts of a record are kept.
struct RecordOptions {
  bool scores = false;
  bool logits = false;
  int32_t top = 0;

  bool wants_any() const { return scores || logits || top > 0; }
};
inline RecordOptions record_options(const GenerationConfig& config) {
  return {.scores = config.output_scores, .logits = config.output_logits, .top = config.top_logprobs};
}

/// The record of `token`. `logits` and `scores` are f32 [V]; shared, because beams with one past share its records.
/// Null when the options want nothing.
std::shared_ptr<const TokenRecord> record_token(const RecordOptions& options, std::span<const float> logits,
                                                std::span<const float> scores, int32_t token);

}  // namespace lockstep::generation
