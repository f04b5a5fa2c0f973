#include <fmt/format.h>

#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

constexpr Limits<int64_t> kExperts{1, int64_t{1} << 16};

/// The default of gpt-oss without rope keys: YaRN from 4096 positions by factor 32.
RopeSpec gpt_oss_rope(double theta, int64_t rotated) {
  return {.kind = RopeSpec::Kind::kYarn,
          .rotated = rotated,
          .theta = theta,
          .factor = 32.0,
          .original_max_positions = 4096,
          .truncate = false};
}

Result<ModelSpec> read_mixtral(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 8;
  keys.max_positions.otherwise = 131072;
  keys.norm_epsilon.otherwise = 1e-5;
  keys.eos_ids = {2};
  keys.bos_id = 1;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "mixtral", keys));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.theta = {"rope_theta", 1e6}}));
  LOCKSTEP_TRY(const auto window, read_window(config, std::nullopt));
  slide_everywhere(window, spec);
  LOCKSTEP_TRY_VOID(read_experts(config, 8, 2, spec));
  return spec;
}

Result<ModelSpec> read_gpt_oss(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 8;
  keys.head_dim.otherwise = 64;
  keys.max_positions.otherwise = 131072;
  keys.norm_epsilon.otherwise = 1e-5;
  keys.activation = {"", "silu"};  // replaced by the experts' own function
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "gpt_oss", keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, true, spec));
  spec.attention_sinks = true;
  constexpr Key<double> kTheta{"rope_theta", 150000.0};
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.theta = kTheta}));
  const auto* scaling = config.find("rope_scaling");
  if ((scaling == nullptr || scaling->empty()) && !config.has("rope_parameters")) {
    spec.rope = gpt_oss_rope(spec.rope.theta, spec.rope.rotated);
  }
  LOCKSTEP_TRY(const auto window, read_window(config, 128));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [](int64_t layer) { return layer % 2 == 0; }, spec));
  LOCKSTEP_TRY_VOID(read_experts(config, 128, 4, spec));
  spec.activation = "clamped_swiglu";
  spec.mlp_bias = true;
  LOCKSTEP_TRY(spec.swiglu_limit, config.number_or("swiglu_limit", 7.0, kPositive));
  LOCKSTEP_TRY(spec.swiglu_alpha, config.number_or("swiglu_alpha", 1.702, kPositive));
  return spec;
}

/// Refuses layers with a dense MLP between those with experts.
Result<void> require_experts_everywhere(const KeyReader& config, const ModelSpec& spec) {
  LOCKSTEP_TRY(const int64_t step, config.integer_or("decoder_sparse_step", 1, kWidth));
  if (step != 1) return unsupported(config, "decoder_sparse_step", fmt::format("{}", step), "1");
  const auto* dense = config.find("mlp_only_layers");
  if (dense == nullptr || dense->empty()) return ok();
  return unsupported(config, "mlp_only_layers", describe(*dense),
                     fmt::format("none: experts in all {} layers", spec.layers));
}

Result<ModelSpec> read_qwen3_moe(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 4;
  keys.intermediate_size = {"moe_intermediate_size", 768};
  keys.max_positions.otherwise = 32768;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "qwen3_moe", keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  spec.query_key_norm = true;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY(const bool slides, config.boolean_or("use_sliding_window", false));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  if (slides) slide_everywhere(window, spec);
  LOCKSTEP_TRY_VOID(require_experts_everywhere(config, spec));
  LOCKSTEP_TRY(spec.routes_sum_to_one, config.boolean_or("norm_topk_prob", false));
  LOCKSTEP_TRY_VOID(read_experts(config, 128, 8, spec));
  return spec;
}

constexpr std::string_view kQwen3MoeIdle[] = {
    "intermediate_size",  // of dense layers, of which there are none
    "max_window_layers",  // transformers gives all layers the window
};

constexpr ModelType kExpertTypes[] = {
    {"gpt_oss", "GptOssForCausalLM", read_gpt_oss},
    {"mixtral", "MixtralForCausalLM", read_mixtral},
    {"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe, kQwen3MoeIdle},
};

}  // namespace

Result<void> read_experts(const KeyReader& config, int64_t default_experts, int64_t default_chosen, ModelSpec& spec) {
  if (spec.activation.ends_with("relu")) {
    return unsupported(config, "hidden_act", fmt::format("\"{}\"", spec.activation), "silu or a gelu");
  }
  spec.mlp = Mlp::kExperts;
  const std::string_view key = either(config, "num_experts", "num_local_experts");
  LOCKSTEP_TRY(spec.experts, config.integer_or(key, default_experts, kExperts));
  LOCKSTEP_TRY(spec.experts_per_token, config.integer_or("num_experts_per_tok", default_chosen, kExperts));
  if (spec.experts_per_token > spec.experts) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/checkpoint] cannot use {}: num_experts_per_tok: found {}, expected 1 to {}, the "
                             "experts; correct the file",
                             config.origin(), spec.experts_per_token, spec.experts)};
  }
  return ok();
}

std::span<const ModelType> expert_types() { return kExpertTypes; }

}  // namespace lockstep::checkpoint
