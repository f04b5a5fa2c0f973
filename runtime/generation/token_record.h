// The recorded properties of an answer's token besides its id.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/generation/generation_config.h"

namespace lockstep::generation {

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0.0f;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

/// Log-probabilities of the processed scores, from which the token was chosen, and of the model's own logits.
struct TokenRecord {
  float logprob = 0.0f;                 // of the token; only with an option that selects the scores
  std::vector<TokenLogprob> top;        // the likeliest ids, in descending order, ties by id
  std::vector<float> scores;            // [V] processed; with `output_scores`
  std::vector<float> logits;            // [V] raw; with `output_logits`
  std::optional<float> model_logprob;   // of the token before temperature, penalties, bias and masks; if selected
  std::vector<TokenLogprob> model_top;  // likewise
};

/// The parts of a record to keep.
struct RecordOptions {
  bool scores = false;
  bool logits = false;
  int32_t top = 0;
  int32_t model_top = -1;  // of the model's own log-probabilities; −1: none

  bool wants_scores() const { return scores || logits || top > 0; }
  bool wants_any() const { return wants_scores() || model_top >= 0; }
};
inline RecordOptions record_options(const GenerationConfig& config, int32_t model_top = -1) {
  return {.scores = config.output_scores,
          .logits = config.output_logits,
          .top = config.top_logprobs,
          .model_top = model_top};
}

/// The record of `token`. `logits` and `scores` are f32 [V]. Shared between beams with a common past. Null when the
/// options select nothing.
std::shared_ptr<const TokenRecord> record_token(const RecordOptions& options, std::span<const float> logits,
                                                std::span<const float> scores, int32_t token);

}  // namespace lockstep::generation
