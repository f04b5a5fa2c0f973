// Phi-3 (Abdin et al. 2024): Llama's layers; the files store q, k, v in one matrix and gate, up in another, which are
// taken apart as they are read, so that attention is divided between the ranks. Long-context checkpoints turn by other
// factors beyond the length that they were first trained for (LongRoPE, Ding et al. 2024).
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_phi3(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                        const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kRms));
}

}  // namespace lockstep::families
