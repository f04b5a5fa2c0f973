// How likely tokens are under a row of logits: shared by every backend on the host, so that there is one order of sums.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::sampling {

/// log Σ e^score over `logits` f32 [V], at least one; −inf when every score is. The sum is made in one order that
/// depends on V alone.
float log_sum_exp(std::span<const float> logits);

/// The ids of the `ids.size()` highest of `logits` f32 [V], highest first, ties by the lower id; V is at least as many.
/// Does not allocate.
void highest_ids(std::span<const float> logits, std::span<int32_t> ids);

/// Fills a row of the graph operation `score`: `row` f32 [1 + 2 · ids], `ids` is scratch for the highest ones. Zeros
/// for a `target` of −1. Does not allocate.
void score_row(std::span<const float> logits, int32_t target, std::span<int32_t> ids, std::span<float> row);

}  // namespace lockstep::sampling
