#include <span>

#include "runtime/core/check.h"
#include "runtime/sampling/candidates.h"
#include "runtime/sampling/sampling.h"

namespace lockstep::sampling {
namespace {

Candidates process(std::span<const float> logits, std::span<float> scores, std::span<const uint8_t> seen,
                   const Parameters& parameters, Scratch& scratch, std::span<const int32_t> forbidden) {
  Candidates candidates(logits, scores, scratch);
  candidates.penalise(seen, parameters.repetition_penalty);
  candidates.exclude_all(forbidden);
  if (!parameters.do_sample || candidates.is_empty()) return candidates;
  candidates.scale(parameters.temperature);
  candidates.keep_top_k(parameters.top_k);
  candidates.keep_top_p(parameters.top_p);
  candidates.keep_min_p(parameters.min_p);
  candidates.keep_typical(parameters.typical_p);
  candidates.drop_below_epsilon(parameters.epsilon_cutoff);
  candidates.drop_below_eta(parameters.eta_cutoff);
  return candidates;
}

}  // namespace

Scratch::Scratch(int64_t capacity)
    : scores_(static_cast<size_t>(capacity)),
      weights_(static_cast<size_t>(capacity)),
      order_(static_cast<size_t>(capacity)) {}

int32_t choose(std::span<const float> logits, std::span<const uint8_t> seen, const Parameters& parameters,
               uint32_t output_index, Scratch& scratch, std::span<const int32_t> forbidden) {
  LOCKSTEP_CHECK(static_cast<int64_t>(logits.size()) <= scratch.capacity(), logits.size(), scratch.capacity());
  const bool scores_are_logits = parameters.repetition_penalty == 1.0f && forbidden.empty();
  if (!parameters.do_sample && scores_are_logits) return highest_id(logits);
  Candidates candidates = process(logits, {scratch.scores(), logits.size()}, seen, parameters, scratch, forbidden);
  if (candidates.is_empty()) return first_number(logits);
  return parameters.do_sample ? candidates.draw(uniform(parameters.seed, output_index)) : candidates.greedy();
}

void processed_scores(std::span<const float> logits, std::span<const uint8_t> seen, const Parameters& parameters,
                      std::span<float> dst, Scratch& scratch, std::span<const int32_t> forbidden) {
  process(logits, dst, seen, parameters, scratch, forbidden);
}

}  // namespace lockstep::sampling
