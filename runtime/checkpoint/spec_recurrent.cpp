// Families with recurrent layers: Qwen3-Next and Qwen 3.5 (3.6, 3.8), with and without experts.
#include <fmt/format.h>

#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

constexpr Limits<int64_t> kHeads{1, int64_t{1} << 16};
constexpr Limits<int64_t> kTaps{1, 16};

/// Reads which layers have attention: `layer_types`, or every `full_attention_interval`th.
Result<void> read_delta_layers(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(const int64_t interval, config.integer_or("full_attention_interval", 4, kWidth));
  LOCKSTEP_TRY(const std::vector<size_t> kinds,
               read_layer_kinds(config, "layer_types", spec.layers, {"linear_attention", "full_attention"}));
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const bool is_delta = kinds.empty() ? (layer + 1) % interval != 0 : kinds[static_cast<size_t>(layer)] == 0;
    if (is_delta) spec.delta_layers.push_back(layer);
  }
  if (std::ssize(spec.delta_layers) < spec.layers) return ok();
  return unsupported(config, "layer_types", "linear attention in all layers", "attention in one at least");
}

Result<void> read_delta_rule(const KeyReader& config, ModelSpec& spec) {
  DeltaRuleSpec& rule = spec.delta_rule;
  LOCKSTEP_TRY(rule.key_heads, config.integer_or("linear_num_key_heads", 16, kHeads));
  LOCKSTEP_TRY(rule.value_heads, config.integer_or("linear_num_value_heads", 32, kHeads));
  LOCKSTEP_TRY(rule.key_dim, config.integer_or("linear_key_head_dim", 128, kWidth));
  LOCKSTEP_TRY(rule.value_dim, config.integer_or("linear_value_head_dim", 128, kWidth));
  LOCKSTEP_TRY(rule.taps, config.integer_or("linear_conv_kernel_dim", 4, kTaps));
  if (rule.value_heads % rule.key_heads == 0) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[runtime/checkpoint] cannot use {}: linear_num_key_heads: found {}, expected a divisor of "
                           "the {} value heads; correct the file",
                           config.origin(), rule.key_heads, rule.value_heads)};
}

FamilyKeys common_keys() {
  FamilyKeys keys;
  keys.head_dim.otherwise = 256;
  keys.max_positions.otherwise = 32768;
  return keys;
}

/// What all these Qwens share, after the sizes.
Result<void> read_qwen_layers(const KeyReader& config, ModelSpec& spec) {
  if (spec.activation != "silu") {
    return unsupported(config, "hidden_act", fmt::format("\"{}\"", spec.activation), "silu");
  }
  LOCKSTEP_TRY_VOID(require_switch(config, "attn_output_gate", true));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  spec.query_key_norm = true;
  spec.attention_gate = true;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.rotated = {"partial_rotary_factor", 0.25}, .partial = true}));
  LOCKSTEP_TRY_VOID(read_delta_layers(config, spec));
  return read_delta_rule(config, spec);
}

Result<ModelSpec> read_qwen3_5_text(const KeyReader& config) {
  FamilyKeys keys = common_keys();
  keys.hidden_size.otherwise = 4096;
  keys.layers.otherwise = 32;
  keys.query_heads.otherwise = 16;
  keys.key_value_heads.otherwise = 4;
  keys.intermediate_size.otherwise = 12288;
  keys.vocabulary.otherwise = 248320;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "qwen3_5_text", keys));
  LOCKSTEP_TRY_VOID(read_qwen_layers(config, spec));
  return spec;
}

constexpr std::string_view kQwenIdle[] = {
    "mamba_ssm_dtype",  // of the recurrence's states: always float32
    // of mixtures with dense layers, which Qwen 3.5 does not have; Qwen3-Next's reader asks for them
    "mlp_only_layers",
    "decoder_sparse_step",
    "intermediate_size",
    "norm_topk_prob",
    "mtp_num_hidden_layers",         // heads for drafts, which transformers does not load
    "mtp_use_dedicated_embeddings",  // of those
    // three coordinates of a position, which are equal in a text
    "mrope_section",
    "mrope_interleaved",
};

/// Experts in all layers, and one that all tokens share, with a gate.
Result<void> read_qwen_experts(const KeyReader& config, int64_t experts, int64_t chosen, ModelSpec& spec) {
  LOCKSTEP_TRY_VOID(read_experts(config, experts, chosen, spec));
  LOCKSTEP_TRY(spec.shared_expert_size, config.integer_or("shared_expert_intermediate_size", 512, kWidth));
  spec.shared_expert_gate = true;
  return ok();
}

FamilyKeys qwen_expert_keys() {
  FamilyKeys keys = common_keys();
  keys.hidden_size.otherwise = 2048;
  keys.query_heads.otherwise = 16;
  keys.key_value_heads.otherwise = 2;
  keys.intermediate_size = {"moe_intermediate_size", 512};
  return keys;
}

Result<ModelSpec> read_qwen3_5_moe_text(const KeyReader& config) {
  FamilyKeys keys = qwen_expert_keys();
  keys.layers.otherwise = 40;
  keys.vocabulary.otherwise = 248320;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "qwen3_5_moe_text", keys));
  LOCKSTEP_TRY_VOID(read_qwen_layers(config, spec));
  LOCKSTEP_TRY_VOID(read_qwen_experts(config, 256, 8, spec));
  return spec;
}

Result<ModelSpec> read_qwen3_next(const KeyReader& config) {
  FamilyKeys keys = qwen_expert_keys();
  keys.layers.otherwise = 48;
  keys.vocabulary.otherwise = 151936;
  LOCKSTEP_TRY_VOID(require_switch(config, "use_sliding_window", false));
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "qwen3_next", keys));
  LOCKSTEP_TRY_VOID(read_qwen_layers(config, spec));
  LOCKSTEP_TRY(spec.router.sum_to_one, config.boolean_or("norm_topk_prob", true));
  LOCKSTEP_TRY_VOID(read_qwen_experts(config, 512, 10, spec));
  LOCKSTEP_TRY_VOID(read_sparse_layers(config, 5632, spec));
  return spec;
}

Result<ModelSpec> read_qwen3_5(const KeyReader& config) {
  return read_text_part(config, /*tied=*/false, read_qwen3_5_text, kQwenIdle);
}

Result<ModelSpec> read_qwen3_5_moe(const KeyReader& config) {
  return read_text_part(config, /*tied=*/false, read_qwen3_5_moe_text, kQwenIdle);
}

/// Of pictures and videos.
constexpr std::string_view kVisionIdle[] = {"vision_config",         "image_token_id",      "video_token_id",
                                            "vision_start_token_id", "vision_end_token_id", "text_config",
                                            "language_model_only"};

constexpr ModelType kRecurrentTypes[] = {
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", read_qwen3_5, kVisionIdle},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", read_qwen3_5_moe, kVisionIdle},
    {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", read_qwen3_5_moe_text, kQwenIdle},
    {"qwen3_5_text", "Qwen3_5ForCausalLM", read_qwen3_5_text, kQwenIdle},
    {"qwen3_next", "Qwen3NextForCausalLM", read_qwen3_next, kQwenIdle},
};

}  // namespace

std::span<const ModelType> recurrent_types() { return kRecurrentTypes; }

}  // namespace lockstep::checkpoint
