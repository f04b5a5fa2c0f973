// Gemma 2 (Gemma Team 2024): four norms a layer by 1 + w, embeddings times √hidden_size, soft caps on scores and
// logits, and a window in every other layer.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_gemma2(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                          const StepShape& shape) {
  return sandwich_decoder(StepBuilder(spec, partition, shape, Norm::kRmsPlusOne));
}

}  // namespace lockstep::families
