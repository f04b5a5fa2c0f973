// Next-token sampling of runtime/sampling in operations of the device: the same scores, candidates and random number,
// so the same token as on a host. Sums over the vocabulary are f32 here and f64 there, so a draw may differ if u is
// within about 1e-6 of the boundary between two tokens.
#pragma once

#include "runtime/backends/neuron/hlo/builder.h"
#include "runtime/backends/neuron/lowering.h"

namespace lockstep::neuron {

/// The sampling states of S slots, for a vocabulary of V and E end tokens.
struct DrawStates {
  hlo::Value numbers;   // f32 [S, sampling::kNumbers]
  hlo::Value integers;  // s32 [S, sampling::kIntegers]
  hlo::Value seed;      // s32 [S, 2]
  hlo::Value eos;       // s32 [S, E]
};

/// f32 [S] in [0, 1): sampling::uniform(seed, output_index), to the bit, by Philox4x32-10.
hlo::Value uniform(hlo::Builder& b, hlo::Value seed, hlo::Value output_index);

/// s32 [S]: the tokens chosen by sampling::choose. `logits` f32 [S, V], `seen` pred [S, V], `output_index` s32 [S].
/// Slots with unwritten states get an arbitrary token.
hlo::Value choose(hlo::Builder& b, LoweringOptions::Sampling sampling, hlo::Value logits, hlo::Value seen,
                  const DrawStates& states, hlo::Value output_index);

}  // namespace lockstep::neuron
