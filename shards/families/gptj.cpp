// GPT-J (Wang and Komatsuzaki 2021): attention and a plain MLP side by side below one norm; the first rotary_dim
// elements of a head turn in neighbouring pairs; the head has a bias.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_gptj(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                        const StepShape& shape) {
  return parallel_decoder(StepBuilder(spec, partition, shape, Norm::kLayer), ParallelNorms::kOne);
}

}  // namespace lockstep::families
