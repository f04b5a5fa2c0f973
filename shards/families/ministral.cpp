// Ministral (Mistral AI 2024): Mistral's layers, some with a window and some without (`layer_types`).
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_ministral(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                             const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kRms));
}

}  // namespace lockstep::families
