#include "shards/families/decoder.h"

#include <fmt/format.h>

namespace lockstep::families {
namespace {

using graph::ValueId;

std::string layer_name(int64_t layer, const char* part) { return fmt::format("model.layers.{}.{}", layer, part); }

constexpr const char* kInputNorm = "input_layernorm";
constexpr const char* kSecondNorm = "post_attention_layernorm";

}  // namespace

Step sequential_decoder(StepBuilder step, EmbeddingNorm embedding_norm) {
  ValueId x = step.embedding();
  if (embedding_norm == EmbeddingNorm::kPresent) x = step.norm(x, "model.embed_norm");
  const bool normed_residual = step.spec().residual_after_norm;
  for (int64_t layer = 0; layer < step.spec().layers; ++layer) {
    const ValueId attention_in = step.norm(x, layer_name(layer, kInputNorm));
    x = step.graph().add(normed_residual ? attention_in : x, step.attention(attention_in, layer));
    const ValueId mlp_in = step.norm(x, layer_name(layer, kSecondNorm));
    x = step.graph().add(normed_residual ? mlp_in : x, step.mlp(mlp_in, layer));
  }
  return std::move(step).finish(x);
}

Step parallel_decoder(StepBuilder step, ParallelNorms norms) {
  ValueId x = step.embedding();
  for (int64_t layer = 0; layer < step.spec().layers; ++layer) {
    const ValueId attention_in = step.norm(x, layer_name(layer, kInputNorm));
    const ValueId mlp_in = norms == ParallelNorms::kOne ? attention_in : step.norm(x, layer_name(layer, kSecondNorm));
    x = step.graph().add(x, step.attention_plus_mlp(attention_in, mlp_in, layer));
  }
  return std::move(step).finish(x);
}

Step sandwich_decoder(StepBuilder step) {
  ValueId x = step.embedding();
  for (int64_t layer = 0; layer < step.spec().layers; ++layer) {
    const ValueId attended = step.attention(step.norm(x, layer_name(layer, kInputNorm)), layer);
    x = step.graph().add(x, step.norm(attended, layer_name(layer, kSecondNorm)));
    const ValueId fed = step.mlp(step.norm(x, layer_name(layer, "pre_feedforward_layernorm")), layer);
    x = step.graph().add(x, step.norm(fed, layer_name(layer, "post_feedforward_layernorm")));
  }
  return std::move(step).finish(x);
}

Step post_norm_decoder(StepBuilder step) {
  ValueId x = step.embedding();
  for (int64_t layer = 0; layer < step.spec().layers; ++layer) {
    x = step.norm(step.graph().add(x, step.attention(x, layer)), layer_name(layer, kInputNorm));
    x = step.norm(step.graph().add(x, step.mlp(x, layer)), layer_name(layer, kSecondNorm));
  }
  return std::move(step).finish(x);
}

}  // namespace lockstep::families
