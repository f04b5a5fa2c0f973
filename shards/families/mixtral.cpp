// Mixtral (Jiang et al. 2024): Mistral's attention, and the two best of eight experts as MLP.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_mixtral(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                           const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kRms));
}

}  // namespace lockstep::families
