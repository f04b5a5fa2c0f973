// Llama (Touvron et al. 2023; Llama 3 adds grouped-query attention everywhere and scaled rotary positions) and
// everything shaped like it: SmolLM2, TinyLlama …
//
//   x = x + attention(rms_norm(x));  x = x + down(silu(gate(x')) · up(x')) with x' = rms_norm(x)
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_llama(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                         const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kRms));
}

}  // namespace lockstep::families
