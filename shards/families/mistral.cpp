// Mistral 7B (Jiang et al. 2023): Llama's layers, all with a window in the first version and none in later ones.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_mistral(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                           const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kRms));
}

}  // namespace lockstep::families
