#include "shards/families/decoder.h"

#include <fmt/format.h>

namespace lockstep::families {
namespace {

using graph::ValueId;

std::string layer_name(int64_t layer, const char* part) { return fmt::format("model.layers.{}.{}", layer, part); }

constexpr const char* kInputNorm = "input_layernorm";
constexpr const char* kSecondNorm = "post_attention_layernorm";

/// The residual x plus what a block makes of it.
ValueId add(StepBuilder& step, ValueId x, ValueId y) {
  const double scale = step.spec().residual_scale;
  return step.graph().add(x, scale == 1.0 ? y : step.graph().scale(y, scale));
}

ValueId sequential_layer(StepBuilder& step, ValueId x, int64_t layer) {
  const bool normed_residual = step.spec().residual_after_norm;
  const ValueId attention_in = step.norm(x, layer_name(layer, kInputNorm));
  x = add(step, normed_residual ? attention_in : x, step.attention(attention_in, layer));
  const ValueId mlp_in = step.norm(x, layer_name(layer, kSecondNorm));
  return add(step, normed_residual ? mlp_in : x, step.mlp(mlp_in, layer));
}

ValueId post_norm_layer(StepBuilder& step, ValueId x, int64_t layer) {
  x = step.norm(add(step, x, step.attention(x, layer)), layer_name(layer, kInputNorm));
  return step.norm(add(step, x, step.mlp(x, layer)), layer_name(layer, kSecondNorm));
}

ValueId parallel_layer(StepBuilder& step, ValueId x, int64_t layer, Layout layout) {
  const ValueId attention_in = step.norm(x, layer_name(layer, kInputNorm));
  const bool one_norm = layout == Layout::kParallelOneNorm || step.spec().shared_norm;
  const ValueId mlp_in = one_norm ? attention_in : step.norm(x, layer_name(layer, kSecondNorm));
  return add(step, x, step.attention_plus_mlp(attention_in, mlp_in, layer));
}

ValueId normed_blocks_layer(StepBuilder& step, ValueId x, int64_t layer) {
  x = add(step, x, step.norm(step.attention(x, layer), layer_name(layer, kSecondNorm)));
  return add(step, x, step.norm(step.mlp(x, layer), layer_name(layer, "post_feedforward_layernorm")));
}

ValueId sandwich_layer(StepBuilder& step, ValueId x, int64_t layer) {
  const ValueId attended = step.attention(step.norm(x, layer_name(layer, kInputNorm)), layer);
  x = add(step, x, step.norm(attended, layer_name(layer, kSecondNorm)));
  const ValueId mlp_in = step.norm(x, layer_name(layer, "pre_feedforward_layernorm"));
  const ValueId fed =
      step.spec().experts_beside_mlp ? step.mlp_beside_experts(x, mlp_in, layer) : step.mlp(mlp_in, layer);
  x = add(step, x, step.norm(fed, layer_name(layer, "post_feedforward_layernorm")));
  return step.scale_layer(step.add_layer_input(x, layer), layer);
}

ValueId build_layer(StepBuilder& step, ValueId x, int64_t layer, Layout layout) {
  const bool is_parallel = layout == Layout::kParallelOneNorm || layout == Layout::kParallelTwoNorms;
  if (is_parallel && step.spec().parallel_residual) return parallel_layer(step, x, layer, layout);
  if (layout == Layout::kNormedBlocks) return normed_blocks_layer(step, x, layer);
  if (layout == Layout::kSandwich) return sandwich_layer(step, x, layer);
  return step.spec().norm_before ? sequential_layer(step, x, layer) : post_norm_layer(step, x, layer);
}

}  // namespace

Step build_layers(StepBuilder step, Layout layout, Scaled scaled) {
  ValueId x = step.embedding(scaled);
  if (layout == Layout::kNormedEmbedding) x = step.norm(x, "model.embed_norm");
  for (int64_t layer = 0; layer < step.spec().layers; ++layer) x = build_layer(step, x, layer, layout);
  return std::move(step).finish(x);
}

}  // namespace lockstep::families
