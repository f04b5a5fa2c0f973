// GPT-2 (Radford et al. 2019): learned positions, biases everywhere, a plain MLP with tanh-approximated GELU. The files
// store matrices transposed and q, k, v in one.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_gpt2(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                        const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kLayer));
}

}  // namespace lockstep::families
