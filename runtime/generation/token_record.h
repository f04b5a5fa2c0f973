// The recorded properties of an answer's token besides its id.
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

/// Log-probabilities of the processed scores, from which the token was chosen.
struct TokenRecord {
  float logprob = 0.0f;           // of the token
  std::vector<TokenLogprob> top;  // the likeliest ids, in descending order, ties by id
  std::vector<float> scores;      // [V] processed; with `output_scores`
  std::vector<float> logits;      // [V] raw; with `output_logits`
};

/// The parts of a record to keep.
struct RecordOptions {
  bool scores = false;
  bool logits = false;
  int32_t top = 0;

  bool wants_any() const { return scores || logits || top > 0; }
};
inline RecordOptions record_options(const GenerationConfig& config) {
  return {.scores = config.output_scores, .logits = config.output_logits, .top = config.top_logprobs};
}

/// The record of `token`. `logits` and `scores` are f32 [V]. Shared between beams with a common past. Null when the
/// options select nothing.
std::shared_ptr<const TokenRecord> record_token(const RecordOptions& options, std::span<const float> logits,
                                                std::span<const float> scores, int32_t token);

}  // namespace lockstep::generation
