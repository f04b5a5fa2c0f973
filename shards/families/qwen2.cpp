// Qwen2 (Yang et al. 2024): Llama's layers with biases on q, k and v; a window in the upper layers if the config asks.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_qwen2(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                         const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kRms));
}

}  // namespace lockstep::families
