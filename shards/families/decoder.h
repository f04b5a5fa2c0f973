// The ways in which families put layers together. A family's file chooses one and says what is particular about it.
#pragma once

#include "shards/families/step_builder.h"

namespace lockstep::families {

/// x += attention(norm(x)); x += mlp(norm(x)): Llama and most others. BLOOM norms the embedding, too.
enum class EmbeddingNorm { kNone, kPresent };
Step sequential_decoder(StepBuilder step, EmbeddingNorm embedding_norm = EmbeddingNorm::kNone);

/// x += attention(norm(x)) + mlp(norm'(x)), one all-reduce a layer: GPT-J (one norm for both), GPT-NeoX (two).
enum class ParallelNorms { kOne, kTwo };
Step parallel_decoder(StepBuilder step, ParallelNorms norms);

/// x += norm(attention(norm(x))); x += norm(mlp(norm(x))): Gemma 2 and 3.
Step sandwich_decoder(StepBuilder step);

/// x = norm(x + attention(x)); x = norm(x + mlp(x)), and no norm at the end: OPT 350m.
Step post_norm_decoder(StepBuilder step);

}  // namespace lockstep::families
