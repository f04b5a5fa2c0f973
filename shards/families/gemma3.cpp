// Gemma 3's text model (Gemma Team 2025): Gemma 2's layers without caps, heads that are normed before they turn, five
// layers with a window to one without, and a rotation of its own for the former.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_gemma3(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                          const StepShape& shape) {
  return sandwich_decoder(StepBuilder(spec, partition, shape, Norm::kRmsPlusOne));
}

}  // namespace lockstep::families
