// GPT-NeoX (Black et al. 2022; Pythia): attention and a plain MLP side by side, each below a norm of its own, or one
// after the other where the config says so; a part of each head turns.
#include "shards/families/decoder.h"

namespace lockstep::families {

Result<Step> build_gpt_neox(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                            const StepShape& shape) {
  StepBuilder step(spec, partition, shape, Norm::kLayer);
  return spec.parallel_residual ? parallel_decoder(std::move(step), ParallelNorms::kTwo)
                                : sequential_decoder(std::move(step));
}

}  // namespace lockstep::families
