#include "runtime/checkpoint/stored_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace lockstep::checkpoint {
namespace {

using enum Outputs;
using enum Axes;

// Llama and close variants: Mistral, Ministral, Qwen 2 and 3, Gemma 2 and 3.
constexpr std::string_view kLlamaPrefixes[] = {"model.", "language_model.model.", "model.language_model.", ""};
constexpr StoredForm kLlamaModel[] = {
    {"model.embed_tokens.*", "{p}embed_tokens.*"},
    {"model.norm.*", "{p}norm.*"},
    {"lm_head.*", "lm_head.*"},
    {"lm_head.*", "language_model.lm_head.*"},
};
constexpr StoredForm kLlamaLayer[] = {
    {"input_layernorm.*", "input_layernorm.*"},
    {"post_attention_layernorm.*", "post_attention_layernorm.*"},
    {"pre_feedforward_layernorm.*", "pre_feedforward_layernorm.*"},
    {"post_feedforward_layernorm.*", "post_feedforward_layernorm.*"},
    {"self_attn.q_proj.*", "self_attn.q_proj.*"},
    {"self_attn.k_proj.*", "self_attn.k_proj.*"},
    {"self_attn.v_proj.*", "self_attn.v_proj.*"},
    {"self_attn.o_proj.*", "self_attn.o_proj.*"},
    {"self_attn.q_norm.*", "self_attn.q_norm.*"},
    {"self_attn.k_norm.*", "self_attn.k_norm.*"},
    {"self_attn.sinks", "self_attn.sinks"},
    {"mlp.gate_proj.*", "mlp.gate_proj.*"},
    {"mlp.up_proj.*", "mlp.up_proj.*"},
    {"mlp.down_proj.*", "mlp.down_proj.*"},
};

/// Gemma 3n and 4.
constexpr StoredForm kGemma4Model[] = {
    {"model.altup_projections.{s}.*", "{p}altup_projections.{s}.*"},
    {"model.altup_unembed_projections.{s}.*", "{p}altup_unembed_projections.{s}.*"},
    {"model.embed_tokens_per_layer.*", "{p}embed_tokens_per_layer.*"},
    {"model.per_layer_model_projection.*", "{p}per_layer_model_projection.*"},
    {"model.per_layer_projection_norm.*", "{p}per_layer_projection_norm.*"},
    {"model.embed_tokens.*", "{p}embed_tokens.*"},
    {"model.norm.*", "{p}norm.*"},
    {"lm_head.*", "lm_head.*"},
    {"lm_head.*", "language_model.lm_head.*"},
};
constexpr StoredForm kGemma4Layer[] = {
    {"per_layer_input_gate.*", "per_layer_input_gate.*"},
    {"per_layer_projection.*", "per_layer_projection.*"},
    {"post_per_layer_input_norm.*", "post_per_layer_input_norm.*"},
    {"layer_scalar", "layer_scalar"},
    {"post_feedforward_layernorm_1.*", "post_feedforward_layernorm_1.*"},
    {"post_feedforward_layernorm_2.*", "post_feedforward_layernorm_2.*"},
    {"pre_feedforward_layernorm_2.*", "pre_feedforward_layernorm_2.*"},
    {"mlp.shared_expert.gate_proj.*", "mlp.gate_proj.*"},
    {"mlp.shared_expert.up_proj.*", "mlp.up_proj.*"},
    {"mlp.shared_expert.down_proj.*", "mlp.down_proj.*"},
    {"mlp.router.weight", "router.proj.weight"},
    {"mlp.router.scale", "router.scale"},
    {"mlp.router.expert_scale", "router.per_expert_scale"},
    {"mlp.experts.{e}.gate_proj.weight", "experts.gate_up_proj", kFirstHalf, kExpertsOutputInput},
    {"mlp.experts.{e}.up_proj.weight", "experts.gate_up_proj", kSecondHalf, kExpertsOutputInput},
    {"mlp.experts.{e}.down_proj.weight", "experts.down_proj", kAll, kExpertsOutputInput},
    {"altup.correct_output_scale", "altup.correct_output_scale"},
    {"altup.correction_coefs.*", "altup.correction_coefs.*"},
    {"altup.prediction_coefs.*", "altup.prediction_coefs.*"},
    {"altup.modality_router.*", "altup.modality_router.*"},
    {"altup.router_norm.*", "altup.router_norm.*"},
    {"laurel.linear_left.*", "laurel.linear_left.*"},
    {"laurel.linear_right.*", "laurel.linear_right.*"},
    {"laurel.post_laurel_norm.*", "laurel.post_laurel_norm.*"}};

constexpr StoredForm kPhi3Layer[] = {
    {"self_attn.q_proj.*", "self_attn.qkv_proj.*", kQuery}, {"self_attn.k_proj.*", "self_attn.qkv_proj.*", kKey},
    {"self_attn.v_proj.*", "self_attn.qkv_proj.*", kValue}, {"mlp.gate_proj.*", "mlp.gate_up_proj.*", kFirstHalf},
    {"mlp.up_proj.*", "mlp.gate_up_proj.*", kSecondHalf},
};

/// Before Llama's, whose second norm is GLM's third.
constexpr StoredForm kGlm4Layer[] = {
    {"post_attention_layernorm.*", "post_self_attn_layernorm.*"},
    {"pre_feedforward_layernorm.*", "post_attention_layernorm.*"},
    {"post_feedforward_layernorm.*", "post_mlp_layernorm.*"},
    {"mlp.gate_proj.*", "mlp.gate_up_proj.*", kFirstHalf},
    {"mlp.up_proj.*", "mlp.gate_up_proj.*", kSecondHalf},
};
constexpr StoredForm kHunYuanLayer[] = {{"self_attn.q_norm.*", "self_attn.query_layernorm.*"},
                                        {"self_attn.k_norm.*", "self_attn.key_layernorm.*"}};

constexpr StoredForm kPhiModel[] = {
    {"model.embed_tokens.*", "{p}embed_tokens.*"},
    {"model.norm.*", "{p}final_layernorm.*"},
    {"lm_head.*", "lm_head.*"},
};
constexpr StoredForm kPhiLayer[] = {
    {"self_attn.o_proj.*", "self_attn.dense.*"}, {"mlp.up_proj.*", "mlp.fc1.*"}, {"mlp.down_proj.*", "mlp.fc2.*"}};
constexpr StoredForm kStarcoder2Layer[] = {{"mlp.up_proj.*", "mlp.c_fc.*"}, {"mlp.down_proj.*", "mlp.c_proj.*"}};

constexpr StoredForm kMixtralLayer[] = {
    {"mlp.router.*", "block_sparse_moe.gate.*"},
    {"mlp.router.*", "mlp.gate.*"},
    {"mlp.experts.{e}.gate_proj.*", "block_sparse_moe.experts.{e}.w1.*"},
    {"mlp.experts.{e}.down_proj.*", "block_sparse_moe.experts.{e}.w2.*"},
    {"mlp.experts.{e}.up_proj.*", "block_sparse_moe.experts.{e}.w3.*"},
    {"mlp.experts.{e}.gate_proj.weight", "mlp.experts.gate_up_proj", kFirstHalf, kExpertsOutputInput},
    {"mlp.experts.{e}.up_proj.weight", "mlp.experts.gate_up_proj", kSecondHalf, kExpertsOutputInput},
    {"mlp.experts.{e}.down_proj.weight", "mlp.experts.down_proj", kAll, kExpertsOutputInput},
};

/// A bias of the router's choice, and an expert that all tokens share, of DeepSeek-V3 and those after it; beside
/// Qwen's.
constexpr StoredForm kSharedExpertsLayer[] = {
    {"mlp.router.score_bias", "mlp.gate.e_score_correction_bias"},
    {"mlp.shared_expert.gate_proj.*", "mlp.shared_experts.gate_proj.*"},
    {"mlp.shared_expert.up_proj.*", "mlp.shared_experts.up_proj.*"},
    {"mlp.shared_expert.down_proj.*", "mlp.shared_experts.down_proj.*"},
};

/// Latent attention, beside Llama's output projection.
constexpr StoredForm kDeepseekLayer[] = {
    {"self_attn.q_a_proj.*", "self_attn.q_a_proj.*"},
    {"self_attn.q_a_norm.*", "self_attn.q_a_layernorm.*"},
    {"self_attn.q_b_proj.*", "self_attn.q_b_proj.*"},
    {"self_attn.kv_a_proj.*", "self_attn.kv_a_proj_with_mqa.*"},
    {"self_attn.kv_a_norm.*", "self_attn.kv_a_layernorm.*"},
    {"self_attn.latent_key_proj.weight", "self_attn.kv_b_proj.weight", kLatentKey, kInputOutputByHead},
    {"self_attn.latent_value_proj.weight", "self_attn.kv_b_proj.weight", kLatentValue},
};

constexpr StoredForm kQwen2MoeLayer[] = {
    {"mlp.shared_expert.gate_proj.*", "mlp.shared_expert.gate_proj.*"},
    {"mlp.shared_expert.up_proj.*", "mlp.shared_expert.up_proj.*"},
    {"mlp.shared_expert.down_proj.*", "mlp.shared_expert.down_proj.*"},
    {"mlp.shared_expert_gate.*", "mlp.shared_expert_gate.*"},
};

constexpr StoredForm kErnie45MoeLayer[] = {
    {"mlp.router.score_bias", "mlp.moe_statics.e_score_correction_bias", kOnlyRow},
    {"mlp.router.score_bias", "mlp.gate.moe_statics.e_score_correction_bias", kOnlyRow},
};

constexpr StoredForm kLlama4Layer[] = {
    {"mlp.gate_proj.*", "feed_forward.gate_proj.*"},
    {"mlp.up_proj.*", "feed_forward.up_proj.*"},
    {"mlp.down_proj.*", "feed_forward.down_proj.*"},
    {"mlp.router.*", "feed_forward.router.*"},
    {"mlp.experts.{e}.gate_proj.weight", "feed_forward.experts.gate_up_proj", kFirstHalf, kExpertsInputOutput},
    {"mlp.experts.{e}.up_proj.weight", "feed_forward.experts.gate_up_proj", kSecondHalf, kExpertsInputOutput},
    {"mlp.experts.{e}.down_proj.weight", "feed_forward.experts.down_proj", kAll, kExpertsInputOutput},
    {"mlp.shared_expert.gate_proj.*", "feed_forward.shared_expert.gate_proj.*"},
    {"mlp.shared_expert.up_proj.*", "feed_forward.shared_expert.up_proj.*"},
    {"mlp.shared_expert.down_proj.*", "feed_forward.shared_expert.down_proj.*"}};
constexpr StoredForm kExaoneMoeLayer[] = {{"mlp.router.score_bias", "mlp.e_score_correction_bias"}};
constexpr StoredForm kHyV3Layer[] = {
    {"mlp.router.*", "mlp.router.gate.*"},
    {"mlp.router.score_bias", "mlp.expert_bias"},
    {"mlp.router.score_bias", "mlp.e_score_correction_bias"},
    {"mlp.shared_expert.gate_proj.*", "mlp.shared_mlp.gate_proj.*"},
    {"mlp.shared_expert.up_proj.*", "mlp.shared_mlp.up_proj.*"},
    {"mlp.shared_expert.down_proj.*", "mlp.shared_mlp.down_proj.*"},
};

/// Beside Mixtral's.
constexpr StoredForm kMiniMaxM2Layer[] = {
    {"mlp.router.score_bias", "block_sparse_moe.e_score_correction_bias"},
    {"mlp.router.score_bias", "mlp.e_score_correction_bias"},
};

/// Beside the packed form, which is Mixtral's.
constexpr StoredForm kQwenExpertsLayer[] = {
    {"mlp.experts.{e}.gate_proj.*", "mlp.experts.{e}.gate_proj.*"},
    {"mlp.experts.{e}.up_proj.*", "mlp.experts.{e}.up_proj.*"},
    {"mlp.experts.{e}.down_proj.*", "mlp.experts.{e}.down_proj.*"},
};

constexpr StoredForm kGraniteMoeLayer[] = {
    {"mlp.router.*", "block_sparse_moe.router.layer.*"},
    {"mlp.experts.{e}.gate_proj.weight", "block_sparse_moe.input_linear.weight", kFirstHalf, kExpertsOutputInput},
    {"mlp.experts.{e}.up_proj.weight", "block_sparse_moe.input_linear.weight", kSecondHalf, kExpertsOutputInput},
    {"mlp.experts.{e}.down_proj.weight", "block_sparse_moe.output_linear.weight", kAll, kExpertsOutputInput},
};

/// Before Llama's. Attention in some layers, linear attention in the others.
constexpr StoredForm kQwen35Layer[] = {
    {"self_attn.q_proj.*", "self_attn.q_proj.*", kGatedQuery},
    {"self_attn.gate_proj.*", "self_attn.q_proj.*", kGateOfQuery},
    {"linear_attn.q_proj.weight", "linear_attn.in_proj_qkv.weight", kDeltaQuery},
    {"linear_attn.k_proj.weight", "linear_attn.in_proj_qkv.weight", kDeltaKey},
    {"linear_attn.v_proj.weight", "linear_attn.in_proj_qkv.weight", kDeltaValue},
    {"linear_attn.z_proj.weight", "linear_attn.in_proj_z.weight"},
    {"linear_attn.b_proj.weight", "linear_attn.in_proj_b.weight"},
    {"linear_attn.a_proj.weight", "linear_attn.in_proj_a.weight"},
    {"linear_attn.q_conv.weight", "linear_attn.conv1d.weight", kDeltaQuery, kChannels},
    {"linear_attn.k_conv.weight", "linear_attn.conv1d.weight", kDeltaKey, kChannels},
    {"linear_attn.v_conv.weight", "linear_attn.conv1d.weight", kDeltaValue, kChannels},
    {"linear_attn.a_log", "linear_attn.A_log"},
    {"linear_attn.dt_bias", "linear_attn.dt_bias"},
    {"linear_attn.norm.weight", "linear_attn.norm.weight"},
    {"linear_attn.o_proj.weight", "linear_attn.out_proj.weight"},
};

/// Before Qwen 3.5's: projections by key head.
constexpr StoredForm kQwenNextLayer[] = {
    {"linear_attn.q_proj.weight", "linear_attn.in_proj_qkvz.weight", kDeltaQueryByHead},
    {"linear_attn.k_proj.weight", "linear_attn.in_proj_qkvz.weight", kDeltaKeyByHead},
    {"linear_attn.v_proj.weight", "linear_attn.in_proj_qkvz.weight", kDeltaValueByHead},
    {"linear_attn.z_proj.weight", "linear_attn.in_proj_qkvz.weight", kDeltaGateByHead},
    {"linear_attn.b_proj.weight", "linear_attn.in_proj_ba.weight", kDeltaFirstByHead},
    {"linear_attn.a_proj.weight", "linear_attn.in_proj_ba.weight", kDeltaSecondByHead},
};

constexpr StoredForm kGptOssLayer[] = {
    {"mlp.router.*", "mlp.router.*"},
    {"mlp.experts.{e}.gate_proj.weight", "mlp.experts.gate_up_proj", kEven, kExpertsInputOutput},
    {"mlp.experts.{e}.up_proj.weight", "mlp.experts.gate_up_proj", kOdd, kExpertsInputOutput},
    {"mlp.experts.{e}.down_proj.weight", "mlp.experts.down_proj", kAll, kExpertsInputOutput},
    {"mlp.experts.{e}.gate_proj.weight", "mlp.experts.gate_up_proj", kEven, kExpertsMxfp4},
    {"mlp.experts.{e}.up_proj.weight", "mlp.experts.gate_up_proj", kOdd, kExpertsMxfp4},
    {"mlp.experts.{e}.down_proj.weight", "mlp.experts.down_proj", kAll, kExpertsMxfp4},
    {"mlp.experts.{e}.gate_proj.bias", "mlp.experts.gate_up_proj_bias", kEven, kExpertsOutputInput},
    {"mlp.experts.{e}.up_proj.bias", "mlp.experts.gate_up_proj_bias", kOdd, kExpertsOutputInput},
    {"mlp.experts.{e}.down_proj.bias", "mlp.experts.down_proj_bias", kAll, kExpertsOutputInput}};

constexpr std::string_view kTransformerPrefixes[] = {"transformer.", ""};
constexpr StoredForm kGpt2Model[] = {
    {"model.embed_tokens.*", "{p}wte.*"},
    {"model.embed_positions.*", "{p}wpe.*"},
    {"model.norm.*", "{p}ln_f.*"},
    {"lm_head.*", "lm_head.*"},
};
constexpr StoredForm kGpt2Layer[] = {
    {"input_layernorm.*", "ln_1.*"},
    {"post_attention_layernorm.*", "ln_2.*"},
    {"self_attn.q_proj.*", "attn.c_attn.*", kQuery, kInputOutput},
    {"self_attn.k_proj.*", "attn.c_attn.*", kKey, kInputOutput},
    {"self_attn.v_proj.*", "attn.c_attn.*", kValue, kInputOutput},
    {"self_attn.o_proj.*", "attn.c_proj.*", kAll, kInputOutput},
    {"mlp.up_proj.*", "mlp.c_fc.*", kAll, kInputOutput},
    {"mlp.down_proj.*", "mlp.c_proj.*", kAll, kInputOutput},
};

constexpr StoredForm kGptJLayer[] = {
    {"input_layernorm.*", "ln_1.*"},           {"self_attn.q_proj.*", "attn.q_proj.*"},
    {"self_attn.k_proj.*", "attn.k_proj.*"},   {"self_attn.v_proj.*", "attn.v_proj.*"},
    {"self_attn.o_proj.*", "attn.out_proj.*"}, {"mlp.up_proj.*", "mlp.fc_in.*"},
    {"mlp.down_proj.*", "mlp.fc_out.*"},
};

constexpr std::string_view kOptPrefixes[] = {"model.decoder.", "decoder.", ""};
constexpr StoredForm kOptModel[] = {
    {"model.embed_tokens.*", "{p}embed_tokens.*"}, {"model.embed_positions.*", "{p}embed_positions.*"},
    {"model.project_in.*", "{p}project_in.*"},     {"model.project_out.*", "{p}project_out.*"},
    {"model.norm.*", "{p}final_layer_norm.*"},     {"lm_head.*", "lm_head.*"},
};
constexpr StoredForm kOptLayer[] = {
    {"input_layernorm.*", "self_attn_layer_norm.*"},
    {"post_attention_layernorm.*", "final_layer_norm.*"},
    {"self_attn.q_proj.*", "self_attn.q_proj.*"},
    {"self_attn.k_proj.*", "self_attn.k_proj.*"},
    {"self_attn.v_proj.*", "self_attn.v_proj.*"},
    {"self_attn.o_proj.*", "self_attn.out_proj.*"},
    {"mlp.up_proj.*", "fc1.*"},
    {"mlp.down_proj.*", "fc2.*"},
};

constexpr std::string_view kNeoxPrefixes[] = {"gpt_neox.", ""};
constexpr StoredForm kNeoxModel[] = {
    {"model.embed_tokens.*", "{p}embed_in.*"},
    {"model.norm.*", "{p}final_layer_norm.*"},
    {"lm_head.*", "embed_out.*"},
    {"lm_head.*", "lm_head.*"},
};
constexpr StoredForm kNeoxLayer[] = {
    {"input_layernorm.*", "input_layernorm.*"},
    {"post_attention_layernorm.*", "post_attention_layernorm.*"},
    {"self_attn.q_proj.*", "attention.query_key_value.*", kQueryByHead},
    {"self_attn.k_proj.*", "attention.query_key_value.*", kKeyByHead},
    {"self_attn.v_proj.*", "attention.query_key_value.*", kValueByHead},
    {"self_attn.o_proj.*", "attention.dense.*"},
    {"mlp.up_proj.*", "mlp.dense_h_to_4h.*"},
    {"mlp.down_proj.*", "mlp.dense_4h_to_h.*"},
};

constexpr StoredForm kBloomModel[] = {
    {"model.embed_tokens.*", "{p}word_embeddings.*"},
    {"model.embed_norm.*", "{p}word_embeddings_layernorm.*"},
    {"model.norm.*", "{p}ln_f.*"},
    {"lm_head.*", "lm_head.*"},
};
constexpr StoredForm kBloomLayer[] = {
    {"input_layernorm.*", "input_layernorm.*"},
    {"post_attention_layernorm.*", "post_attention_layernorm.*"},
    {"self_attn.q_proj.*", "self_attention.query_key_value.*", kQueryByHead},
    {"self_attn.k_proj.*", "self_attention.query_key_value.*", kKeyByHead},
    {"self_attn.v_proj.*", "self_attention.query_key_value.*", kValueByHead},
    {"self_attn.o_proj.*", "self_attention.dense.*"},
    {"mlp.up_proj.*", "mlp.dense_h_to_4h.*"},
    {"mlp.down_proj.*", "mlp.dense_4h_to_h.*"},
};

/// Beside BLOOM's.
constexpr StoredForm kFalconLayer[] = {{"input_layernorm.*", "ln_attn.*"}, {"post_attention_layernorm.*", "ln_mlp.*"}};

void replace(std::string& text, std::string_view placeholder, std::string_view value) {
  const size_t at = text.find(placeholder);
  if (at != std::string::npos) text.replace(at, placeholder.size(), value);
}

/// The number between `before` and the next dot of `name`; −1 if there is none.
int64_t number_after(std::string_view name, std::string_view before) {
  const size_t at = name.find(before);
  if (at == std::string_view::npos) return -1;
  const std::string_view rest = name.substr(at + before.size());
  int64_t number = -1;
  const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), number).ptr;
  return end != rest.data() + rest.size() && *end == '.' ? number : -1;
}

}  // namespace

FamilyNames names_of_family(std::string_view model_type) {
  if (model_type == "gpt2") return {kTransformerPrefixes, "h.{n}.", kGpt2Model, {kGpt2Layer}};
  if (model_type == "gptj") return {kTransformerPrefixes, "h.{n}.", kGpt2Model, {kGptJLayer}};
  if (model_type == "bloom") return {kTransformerPrefixes, "h.{n}.", kBloomModel, {kBloomLayer}};
  if (model_type == "falcon") return {kTransformerPrefixes, "h.{n}.", kBloomModel, {kBloomLayer, kFalconLayer}};
  if (model_type == "phi") return {kLlamaPrefixes, "layers.{n}.", kPhiModel, {kPhiLayer, kLlamaLayer}};
  if (model_type == "opt") return {kOptPrefixes, "layers.{n}.", kOptModel, {kOptLayer}};
  if (model_type == "gpt_neox") return {kNeoxPrefixes, "layers.{n}.", kNeoxModel, {kNeoxLayer}};
  if (model_type == "gemma3n_text" || model_type == "gemma4_text") {
    return {kLlamaPrefixes, "layers.{n}.", kGemma4Model, {kLlamaLayer, kGemma4Layer}};
  }
  FamilyNames llama{kLlamaPrefixes, "layers.{n}.", kLlamaModel, {kLlamaLayer}};
  auto& forms = llama.layer_forms;
  if (model_type == "phi3") forms.push_back(kPhi3Layer);
  if (model_type == "granitemoe") forms.push_back(kGraniteMoeLayer);
  if (model_type == "mixtral") forms.push_back(kMixtralLayer);
  if (model_type == "qwen3_moe" || model_type == "olmoe") forms = {kLlamaLayer, kQwenExpertsLayer, kMixtralLayer};
  if (model_type == "qwen3_5_text") forms = {kQwen35Layer, kLlamaLayer};
  if (model_type == "qwen3_5_moe_text") {
    forms = {kQwen35Layer, kLlamaLayer, kQwen2MoeLayer, kQwenExpertsLayer, kMixtralLayer};
  }
  if (model_type == "qwen3_next") {
    forms = {kQwenNextLayer, kQwen35Layer, kLlamaLayer, kQwen2MoeLayer, kQwenExpertsLayer, kMixtralLayer};
  }
  if (model_type == "qwen2_moe") forms = {kLlamaLayer, kQwen2MoeLayer, kQwenExpertsLayer, kMixtralLayer};
  if (model_type == "glm4_moe" || model_type == "ernie4_5_moe" || model_type == "dots1" || model_type == "exaone_moe" ||
      model_type == "hy_v3") {
    forms = {kLlamaLayer, kSharedExpertsLayer, kQwenExpertsLayer, kMixtralLayer};
  }
  if (model_type == "deepseek_v2" || model_type == "deepseek_v3" || model_type == "glm4_moe_lite" ||
      model_type == "mistral4") {
    forms = {kLlamaLayer, kDeepseekLayer, kSharedExpertsLayer, kQwenExpertsLayer, kMixtralLayer};
  }
  if (model_type == "ernie4_5_moe") forms.push_back(kErnie45MoeLayer);
  if (model_type == "exaone_moe") forms.push_back(kExaoneMoeLayer);
  if (model_type == "hy_v3") forms.push_back(kHyV3Layer);
  if (model_type == "llama4_text") forms.push_back(kLlama4Layer);
  if (model_type == "minimax_m2") forms = {kLlamaLayer, kMiniMaxM2Layer, kMixtralLayer};
  if (model_type == "glm4") forms = {kGlm4Layer, kLlamaLayer};
  if (model_type == "hunyuan_v1_dense") forms.push_back(kHunYuanLayer);
  if (model_type == "starcoder2") forms.push_back(kStarcoder2Layer);
  if (model_type == "gpt_oss") forms.push_back(kGptOssLayer);
  return llama;
}

std::string fill_in(std::string_view pattern, const Placeholders& placeholders) {
  std::string name(pattern);
  replace(name, "{p}", placeholders.prefix);
  replace(name, "{n}", std::to_string(placeholders.layer));
  for (const std::string_view of_what : {"{e}", "{s}"}) replace(name, of_what, std::to_string(placeholders.number));
  replace(name, "*", placeholders.parameter);
  return name;
}

std::vector<std::string> possible_names(const FamilyNames& family, std::string_view prefix,
                                        std::string_view canonical) {
  const int64_t number = std::max(number_after(canonical, ".experts."), number_after(canonical, "_projections."));
  Placeholders filled{prefix, number_after(canonical, "model.layers."), number, {}};
  std::vector<std::string> names;
  const auto add_matches = [&](std::string_view before, std::string_view stored_before, const StoredForm& form) {
    for (const std::string_view parameter : {"weight", "bias"}) {
      filled.parameter = parameter;
      if (fill_in(fmt::format("{}{}", before, form.canonical), filled) != canonical) continue;
      std::string name = fill_in(fmt::format("{}{}", stored_before, form.stored), filled);
      if (form.axes == Axes::kExpertsMxfp4) name += "_blocks";
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    }
  };
  for (const StoredForm& form : family.model) add_matches("", "", form);
  for (const auto forms : family.layer_forms) {
    for (const StoredForm& form : forms) add_matches("model.layers.{n}.", fmt::format("{{p}}{}", family.layer), form);
  }
  return names;
}

}  // namespace lockstep::checkpoint
