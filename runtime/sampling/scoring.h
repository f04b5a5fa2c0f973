// Log-probabilities of tokens. All host backends share this one order of sums.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::sampling {

/// log Σ e^score over `logits` f32 [V], V ≥ 1; −inf when every score is −inf. The order of the sum depends on V alone.
float log_sum_exp(std::span<const float> logits);

/// The ids of the `ids.size()` highest of `logits` f32 [V], highest first, ties to the lower id; V ≥ `ids.size()`. Does
/// not allocate.
void highest_ids(std::span<const float> logits, std::span<int32_t> ids);

/// Fills a row of the graph operation `score`: `row` is f32 [1 + 2 · ids], `ids` is scratch for the highest ids. Zeros
/// for a `target` of −1. Does not allocate.
void score_row(std::span<const float> logits, int32_t target, std::span<int32_t> ids, std::span<float> row);

}  // namespace lockstep::sampling
