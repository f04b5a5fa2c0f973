// Scores as logarithms of probabilities.
#pragma once

#include <span>

namespace lockstep::generation {

/// log Σ e^score; −inf when every score is −inf. The sum is f64.
double log_sum_exp(std::span<const float> scores);

/// Replaces each score by the logarithm of its probability.
void log_softmax(std::span<float> scores);

}  // namespace lockstep::generation
