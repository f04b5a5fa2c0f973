// Architectures like Llama without experts, as model types of transformers.
#include "runtime/gguf/config_writer.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

constexpr std::string_view kQueryBias = "blk.0.attn_q.bias", kOutputBias = "blk.0.attn_output.bias";
constexpr std::string_view kGateBias = "blk.0.ffn_gate.bias";

/// `attention_bias` and `mlp_bias`, where tensors show them.
void write_biases(ConfigWriter& writer) {
  if (writer.has_tensor(kQueryBias)) writer.config()["attention_bias"] = true;
  if (writer.has_tensor(kGateBias)) writer.config()["mlp_bias"] = true;
}

Result<void> finish_llama(ConfigWriter& writer) {
  if (!writer.has("attention.key_length")) {
    constexpr KeyPair kRotated[] = {{"rope.dimension_count", "head_dim"}};
    LOCKSTEP_TRY_VOID(writer.copy(kRotated));
  }
  write_biases(writer);
  LOCKSTEP_TRY(const int64_t experts, writer.integer_or("expert_count", 0));
  if (experts == 0) return ok();
  writer.config()["model_type"] = "mixtral";
  constexpr KeyPair kExperts[] = {{"expert_count", "num_local_experts"}, {"expert_used_count", "num_experts_per_tok"}};
  return writer.copy(kExperts);
}

/// Ministral 3: queries grow with their position.
Result<void> finish_mistral3(ConfigWriter& writer) {
  LOCKSTEP_TRY_VOID(finish_llama(writer));
  LOCKSTEP_TRY(const json beta, writer.value("attention.temperature_scale"));
  if (beta.is_null()) return ok();
  writer.config()["model_type"] = "ministral3";
  LOCKSTEP_TRY(const double mscale, writer.number_or("rope.scaling.yarn_log_multiplier", 1.0));
  write_growing_rope(writer, beta, mscale);
  return ok();
}

Result<void> finish_granite(ConfigWriter& writer) {
  constexpr KeyPair kMultipliers[] = {{"embedding_scale", "embedding_multiplier"},
                                      {"residual_scale", "residual_multiplier"},
                                      {"attention.scale", "attention_multiplier"},
                                      {"logit_scale", "logits_scaling"}};
  write_biases(writer);
  return writer.copy(kMultipliers);
}

Result<void> finish_granitemoe(ConfigWriter& writer) {
  LOCKSTEP_TRY_VOID(finish_granite(writer));
  if (writer.has_tensor("blk.0.ffn_gate_shexp.weight")) {
    return writer.unsupported("found a shared expert (GraniteMoeShared), expected none");
  }
  constexpr KeyPair kExperts[] = {{"expert_count", "num_local_experts"}, {"expert_used_count", "num_experts_per_tok"}};
  return writer.copy(kExperts);
}

Result<void> finish_stablelm(ConfigWriter& writer) {
  writer.erase("head_dim");
  json& config = writer.config();
  config["use_qkv_bias"] = writer.has_tensor(kQueryBias);
  config["use_parallel_residual"] = !writer.has_tensor("blk.0.ffn_norm.weight");
  config["qk_layernorm"] = writer.has_tensor("blk.0.attn_q_norm.weight");
  return write_rotated_part(writer, "partial_rotary_factor");
}

Result<void> finish_seed_oss(ConfigWriter& writer) {
  json& config = writer.config();
  config["attention_bias"] = writer.has_tensor(kQueryBias);
  config["attention_out_bias"] = writer.has_tensor(kOutputBias);
  config["mlp_bias"] = writer.has_tensor(kGateBias);
  return ok();
}

Result<void> finish_glm4(ConfigWriter& writer) {
  writer.config()["attention_bias"] = writer.has_tensor(kQueryBias);
  return write_rotated_part(writer, "partial_rotary_factor");
}

Result<void> finish_smollm3(ConfigWriter& writer) {
  write_biases(writer);
  return ok();
}

Result<void> finish_ernie4_5(ConfigWriter& writer) {
  if (writer.has_tensor(kQueryBias)) writer.config()["use_bias"] = true;
  return ok();
}

/// Of families whose only difference may be biases of attention.
Result<void> finish_attention(ConfigWriter& writer) {
  if (writer.has_tensor(kQueryBias)) writer.config()["attention_bias"] = true;
  return ok();
}

/// OLMo 3 is an OLMo 2 with windows, whose layers are not stretched.
Result<void> finish_olmo2(ConfigWriter& writer) {
  LOCKSTEP_TRY_VOID(finish_attention(writer));
  LOCKSTEP_TRY(const int64_t window, writer.integer_or("attention.sliding_window", 0));
  if (window == 0) return ok();
  json& config = writer.config();
  config["model_type"] = "olmo3";
  config["sliding_window"] = window;
  json full = config.value("rope_scaling", json{{"rope_type", "default"}});
  full["rope_theta"] = config.value("rope_theta", json(500000.0));
  config["rope_parameters"] = {{"full_attention", full},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", full["rope_theta"]}}}};
  writer.erase("rope_scaling");
  writer.erase("rope_theta");
  return write_layer_types(writer);
}

/// The first models of the family have no window.
Result<void> finish_exaone4(ConfigWriter& writer) {
  LOCKSTEP_TRY(const int64_t window, writer.integer_or("attention.sliding_window", 0));
  writer.config()["sliding_window"] = window > 0 ? json(window) : json();
  return window > 0 ? write_layer_types(writer) : Result<void>(ok());
}

Result<void> finish_starcoder2(ConfigWriter& writer) {
  writer.config()["use_bias"] = writer.has_tensor(kQueryBias);
  return ok();
}

Result<void> finish_phi3(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"attention.sliding_window", "sliding_window"}};
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  return write_rotated_part(writer, "partial_rotary_factor");
}

constexpr Architecture kDense[] = {
    {"ernie4_5", "ernie4_5", "rms_norm_eps", finish_ernie4_5},
    {"exaone4", "exaone4", "rms_norm_eps", finish_exaone4},
    {"glm4", "glm4", "rms_norm_eps", finish_glm4},
    {"granite", "granite", "rms_norm_eps", finish_granite},
    {"granitemoe", "granitemoe", "rms_norm_eps", finish_granitemoe},
    {"hunyuan-dense", "hunyuan_v1_dense", "rms_norm_eps", finish_attention},
    {"llama", "llama", "rms_norm_eps", finish_llama},
    {"mistral3", "llama", "rms_norm_eps", finish_mistral3},
    {"olmo2", "olmo2", "rms_norm_eps", finish_olmo2},
    {"phi3", "phi3", "rms_norm_eps", finish_phi3},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3", "rms_norm_eps", finish_attention},
    {"seed_oss", "seed_oss", "rms_norm_eps", finish_seed_oss},
    {"smollm3", "smollm3", "rms_norm_eps", finish_smollm3},
    {"stablelm", "stablelm", "layer_norm_eps", finish_stablelm},
    {"starcoder2", "starcoder2", "norm_epsilon", finish_starcoder2},
};

}  // namespace

std::span<const Architecture> dense_architectures() { return kDense; }

}  // namespace lockstep::gguf
