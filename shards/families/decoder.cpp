#include "shards/families/decoder.h"

#include <fmt/format.h>

#include <cmath>

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
  if (step.spec().layer_input_size > 0) x = step.graph().add(x, step.layer_input(x, layer));
  return step.scale_layer(x, layer);
}

// ---- Parallel residual streams (AltUp, Baykal et al. 2023): a layer computes one of them and corrects all ----

using Streams = std::vector<ValueId>;  // each dt[T, d]

size_t active(const StepBuilder& step) { return static_cast<size_t>(step.spec().active_stream); }

/// x · weightᵀ, with rows as large as those of `like`.
ValueId projected_like(StepBuilder& step, ValueId x, const std::string& weight, ValueId like) {
  constexpr double kLeastMeanSquare = 1e-5;
  const int64_t hidden = step.spec().hidden_size;
  const ValueId projected = step.graph().linear(x, step.whole_weight(weight, {hidden, hidden}));
  return step.graph().match_magnitude(projected, like, kLeastMeanSquare);
}

/// x and projections of it.
Streams split_streams(StepBuilder& step, ValueId x) {
  Streams streams{x};
  for (int64_t i = 0; i + 1 < step.spec().streams; ++i) {
    streams.push_back(projected_like(step, x, fmt::format("model.altup_projections.{}.weight", i), x));
  }
  return streams;
}

/// The mean of the first stream and projections of the others.
ValueId merge_streams(StepBuilder& step, const Streams& streams) {
  ValueId sum = streams.front();
  for (size_t i = 1; i < streams.size(); ++i) {
    const std::string weight = fmt::format("model.altup_unembed_projections.{}.weight", i - 1);
    sum = step.graph().add(sum, projected_like(step, streams[i], weight, streams.front()));
  }
  return step.graph().scale(sum, 1.0 / static_cast<double>(streams.size()));
}

/// dt[T, rows of the weight]: a product with the weight of what x says about the streams.
ValueId stream_factors(StepBuilder& step, ValueId x, int64_t layer, const char* weight, int64_t count) {
  const int64_t hidden = step.spec().hidden_size, streams = step.spec().streams;
  const ValueId normed = step.norm(x, layer_name(layer, "altup.router_norm"));
  const ValueId routed =
      step.graph().linear(step.graph().scale(normed, 1.0 / static_cast<double>(hidden)),
                          step.whole_weight(layer_name(layer, "altup.modality_router.weight"), {streams, hidden}));
  const ValueId modalities = step.graph().soft_cap(routed, 1.0);  // the hyperbolic tangent
  return step.graph().linear(modalities, step.whole_weight(layer_name(layer, weight), {count, streams}));
}

/// Each stream plus a sum of all, whose factors the active one decides.
Streams predict_streams(StepBuilder& step, const Streams& streams, int64_t layer) {
  const int64_t count = step.spec().streams;
  const ValueId factors =
      stream_factors(step, streams[active(step)], layer, "altup.prediction_coefs.weight", count * count);
  Streams predictions;
  for (int64_t i = 0; i < count; ++i) {
    const ValueId sum = step.graph().weighted_sum(factors, i * count, streams);
    predictions.push_back(step.graph().add(sum, streams[static_cast<size_t>(i)]));
  }
  return predictions;
}

/// Each prediction plus a multiple of what the layer, whose result is `x`, changed in the active one.
Streams correct_streams(StepBuilder& step, const Streams& predictions, ValueId x, int64_t layer) {
  const int64_t count = step.spec().streams;
  const ValueId factors = stream_factors(step, x, layer, "altup.correction_coefs.weight", count);
  const ValueId change = step.graph().add(x, step.graph().scale(predictions[active(step)], -1.0));
  Streams corrected;
  for (int64_t i = 0; i < count; ++i) {
    const ValueId part = step.graph().weighted_sum(factors, i, {change}, /*offset=*/1.0);
    corrected.push_back(step.graph().add(part, predictions[static_cast<size_t>(i)]));
  }
  return corrected;
}

/// x plus the norm of a product of low rank (LAUREL, Menghani et al. 2024).
ValueId laurel(StepBuilder& step, ValueId x, int64_t layer) {
  const int64_t hidden = step.spec().hidden_size, rank = step.spec().laurel_rank;
  const ValueId left =
      step.graph().linear(x, step.whole_weight(layer_name(layer, "laurel.linear_left.weight"), {rank, hidden}));
  const ValueId right =
      step.graph().linear(left, step.whole_weight(layer_name(layer, "laurel.linear_right.weight"), {hidden, rank}));
  return step.graph().add(x, step.norm(right, layer_name(layer, "laurel.post_laurel_norm")));
}

Streams streams_layer(StepBuilder& step, const Streams& streams, int64_t layer) {
  const Streams predictions = predict_streams(step, streams, layer);
  const ValueId residual = predictions[active(step)];
  const ValueId normed = step.norm(residual, layer_name(layer, kInputNorm));
  const ValueId attended = step.norm(step.attention(normed, layer), layer_name(layer, kSecondNorm));
  ValueId x = step.graph().add(residual, attended);
  if (step.spec().laurel_rank > 0)
    x = step.graph().scale(step.graph().add(x, laurel(step, normed, layer)), std::sqrt(0.5));
  const ValueId fed = step.mlp(step.norm(x, layer_name(layer, "pre_feedforward_layernorm")), layer);
  x = step.graph().add(x, step.norm(fed, layer_name(layer, "post_feedforward_layernorm")));
  Streams corrected = correct_streams(step, predictions, x, layer);
  if (step.spec().layer_input_size == 0) return corrected;
  ValueId changed = corrected[active(step)];
  if (step.spec().scale_active_stream) {
    const Shape whole{step.spec().hidden_size};
    changed = step.graph().multiply(changed, step.whole_weight(layer_name(layer, "altup.correct_output_scale"), whole));
  }
  const ValueId input = step.layer_input(changed, layer);
  for (size_t i = 1; i < corrected.size(); ++i) corrected[i] = step.graph().add(corrected[i], input);
  return corrected;
}

ValueId build_streams(StepBuilder& step, ValueId x) {
  Streams streams = split_streams(step, x);
  for (int64_t layer = 0; layer < step.spec().layers; ++layer) streams = streams_layer(step, streams, layer);
  return merge_streams(step, streams);
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
  if (layout == Layout::kStreams) return std::move(step).finish(build_streams(step, x));
  for (int64_t layer = 0; layer < step.spec().layers; ++layer) x = build_layer(step, x, layer, layout);
  return std::move(step).finish(x);
}

}  // namespace lockstep::families
