// gpt-oss (OpenAI 2025): a mixture of experts with biases and a clamped gate, a learned sink per head in every softmax,
// a window in every other layer, YaRN rotations. The files may hold the experts as mxfp4, decoded as they are read.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_gpt_oss(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                           const StepShape& shape) {
  return sequential_decoder(StepBuilder(spec, partition, shape, Norm::kRms));
}

}  // namespace lockstep::families
