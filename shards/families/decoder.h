// Layer layouts of the model families.
#pragma once

#include "shards/families/step_builder.h"

namespace lockstep::families {

enum class Layout {
  kSequential,        // x += attention(norm(x)); x += mlp(norm(x)): Llama and most others
  kNormedEmbedding,   // the same below a norm of the embedding: BLOOM
  kParallelOneNorm,   // x += attention(norm(x)) + mlp(norm(x)), one norm for both and one all-reduce a layer: GPT-J
  kParallelTwoNorms,  // the same with two norms: GPT-NeoX
  kNormedBlocks,      // x += norm(attention(x)); x += norm(mlp(x)): EXAONE 4
  kStreams,           // sandwiched layers compute one of several residuals and correct all: Gemma 3n
  kSandwich,          // x += norm(attention(norm(x))); x += norm(mlp(norm(x))): Gemma
};

/// Builds the blocks of all layers and the end of the step. The spec changes two layouts: without
/// `parallel_residual` a parallel one is sequential, and without `norm_before` a sequential one norms after each sum,
/// x = norm(x + attention(x)); x = norm(x + mlp(x)), with no norm at the end (OPT 350m).
Step build_layers(StepBuilder step, Layout layout, Scaled scaled);

}  // namespace lockstep::families
