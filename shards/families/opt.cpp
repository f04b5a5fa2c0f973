// OPT (Zhang et al. 2022): learned positions, biases, a plain MLP with ReLU. The 350m model norms after each residual
// sum and projects its narrower embeddings to the hidden size and back.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_opt(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                       const StepShape& shape) {
  StepBuilder step(spec, partition, shape, Norm::kLayer);
  return spec.norm_before ? sequential_decoder(std::move(step)) : post_norm_decoder(std::move(step));
}

}  // namespace lockstep::families
