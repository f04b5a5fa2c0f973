// BLOOM (BigScience 2022): Llama's order of layers with mean-and-variance norms, one of them right after the embedding,
// a plain MLP, and ALiBi instead of rotations (Press et al. 2022). Some checkpoints keep what the norm gave as residual
// (`apply_residual_connection_post_layernorm`).
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_bloom(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                         const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kLayer), EmbeddingNorm::kPresent);
}

}  // namespace lockstep::families
