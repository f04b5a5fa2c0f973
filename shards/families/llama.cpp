// Llama (Touvron et al. 2023; Llama 3 adds grouped-query attention everywhere and scaled rotary positions):
//
//   x = x + attention(rms_norm(x));  x = x + down(silu(gate(x')) · up(x')) with x' = rms_norm(x)
//
// Tensor names and defaults are those of transformers' LlamaForCausalLM.
#include "shards/families/step_builder.h"

namespace lockstep::families {

Result<Step> build_llama(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                         const StepShape& shape) {
  StepBuilder step(spec, partition, shape);
  graph::ValueId x = step.embedding("model.embed_tokens.weight");
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const graph::ValueId attention_in = step.rms_norm(x, prefix + "input_layernorm.weight");
    x = step.graph().add(x, step.rotary_attention(attention_in, layer, prefix + "self_attn."));
    const graph::ValueId mlp_in = step.rms_norm(x, prefix + "post_attention_layernorm.weight");
    x = step.graph().add(x, step.gated_mlp(mlp_in, prefix + "mlp."));
  }
  const char* head = spec.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  return std::move(step).finish(x, "model.norm.weight", head);
}

}  // namespace lockstep::families
