// Qwen3 (Yang et al. 2025): Qwen2 without those biases; heads are normed before they turn.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_qwen3(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                         const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kRms));
}

}  // namespace lockstep::families
