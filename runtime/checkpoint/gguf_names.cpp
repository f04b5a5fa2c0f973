#include "runtime/checkpoint/gguf_names.h"

#include <algorithm>
#include <array>

namespace lockstep::checkpoint {
namespace {

using enum Outputs;
using enum Axes;

constexpr std::string_view kPrefixes[] = {""};

constexpr StoredForm kModel[] = {
    {"model.embed_tokens.*", "token_embd.*"},
    {"model.embed_positions.*", "position_embd.*"},
    {"model.embed_norm.*", "token_embd_norm.*"},
    {"model.norm.*", "output_norm.*"},
    {"lm_head.*", "output.*"},
};

/// Of all families. The norm before the MLP has the name of the one after attention where a layer has no other.
constexpr StoredForm kLayer[] = {
    {"input_layernorm.*", "attn_norm.*"},
    {"post_attention_layernorm.*", "post_attention_norm.*"},
    {"post_attention_layernorm.*", "ffn_norm.*"},
    {"pre_feedforward_layernorm.*", "ffn_norm.*"},
    {"post_feedforward_layernorm.*", "post_ffw_norm.*"},
    {"self_attn.q_proj.*", "attn_q.*"},
    {"self_attn.k_proj.*", "attn_k.*"},
    {"self_attn.v_proj.*", "attn_v.*"},
    {"self_attn.o_proj.*", "attn_output.*"},
    {"self_attn.q_norm.*", "attn_q_norm.*"},
    {"self_attn.k_norm.*", "attn_k_norm.*"},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.gate_proj.*", "ffn_gate.*"},
    {"mlp.up_proj.*", "ffn_up.*"},
    {"mlp.down_proj.*", "ffn_down.*"},
};

/// Of layers whose attn_qkv is not that of linear attention.
constexpr StoredForm kFusedAttention[] = {{"self_attn.q_proj.*", "attn_qkv.*", kQuery},
                                          {"self_attn.k_proj.*", "attn_qkv.*", kKey},
                                          {"self_attn.v_proj.*", "attn_qkv.*", kValue}};

constexpr StoredForm kExperts[] = {
    {"mlp.router.*", "ffn_gate_inp.*"},
    {"mlp.router.score_bias", "exp_probs_b.bias"},
    {"mlp.router.score_bias", "exp_probs_b"},
    {"mlp.experts.{e}.gate_proj.*", "ffn_gate_exps.*", kAll, kExpertsOutputInput},
    {"mlp.experts.{e}.up_proj.*", "ffn_up_exps.*", kAll, kExpertsOutputInput},
    {"mlp.experts.{e}.down_proj.*", "ffn_down_exps.*", kAll, kExpertsOutputInput},
    {"mlp.experts.{e}.gate_proj.weight", "ffn_gate_up_exps.weight", kFirstHalf, kExpertsOutputInput},
    {"mlp.experts.{e}.up_proj.weight", "ffn_gate_up_exps.weight", kSecondHalf, kExpertsOutputInput},
    // before experts were stacked
    {"mlp.experts.{e}.gate_proj.*", "ffn_gate.{e}.*"},
    {"mlp.experts.{e}.up_proj.*", "ffn_up.{e}.*"},
    {"mlp.experts.{e}.down_proj.*", "ffn_down.{e}.*"},
    {"mlp.shared_expert.gate_proj.*", "ffn_gate_shexp.*"},
    {"mlp.shared_expert.up_proj.*", "ffn_up_shexp.*"},
    {"mlp.shared_expert.down_proj.*", "ffn_down_shexp.*"},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", kAsRow},
};

/// Before the common ones: gate and up are one matrix.
constexpr StoredForm kFusedGate[] = {{"mlp.gate_proj.*", "ffn_up.*", kFirstHalf},
                                     {"mlp.up_proj.*", "ffn_up.*", kSecondHalf}};

/// Before the common ones: attention's norm beside that of the MLP.
constexpr StoredForm kFalcon[] = {{"input_layernorm.*", "attn_norm_2.*"},
                                  {"post_attention_layernorm.*", "attn_norm.*"}};

/// Latent attention; the two parts of a head are separate tensors.
constexpr StoredForm kLatent[] = {
    {"self_attn.q_proj.*", "attn_q.*"},
    {"self_attn.q_a_proj.*", "attn_q_a.*"},
    {"self_attn.q_a_norm.*", "attn_q_a_norm.*"},
    {"self_attn.q_b_proj.*", "attn_q_b.*"},
    {"self_attn.kv_a_proj.*", "attn_kv_a_mqa.*"},
    {"self_attn.kv_a_norm.*", "attn_kv_a_norm.*"},
    {"self_attn.latent_key_proj.weight", "attn_k_b.weight", kAll, kHeadsOutputInput},
    {"self_attn.latent_value_proj.weight", "attn_v_b.weight", kAll, kHeadsOutputInput},
};

/// Gemma 3n and 4, before the common ones.
constexpr StoredForm kGemma4Model[] = {
    {"model.embed_tokens_per_layer.*", "per_layer_token_embd.*"},
    {"model.altup_projections.{s}.weight", "altup_proj.weight", kAll, kExpertsOutputInput},
    {"model.altup_unembed_projections.{s}.weight", "altup_unembd_proj.weight", kAll, kExpertsOutputInput},
    {"model.per_layer_model_projection.*", "per_layer_model_proj.*"},
    {"model.per_layer_projection_norm.*", "per_layer_proj_norm.*"},
    {"model.embed_tokens.*", "token_embd.*"},
    {"model.norm.*", "output_norm.*"},
    {"lm_head.*", "output.*"},
};
constexpr StoredForm kGemma4[] = {
    {"per_layer_input_gate.*", "inp_gate.*"},
    {"per_layer_projection.*", "proj.*"},
    {"post_per_layer_input_norm.*", "post_norm.*"},
    {"layer_scalar", "layer_output_scale.weight"},
    {"post_feedforward_layernorm_1.*", "post_ffw_norm_1.*"},
    {"post_feedforward_layernorm_2.*", "post_ffw_norm_2.*"},
    {"pre_feedforward_layernorm_2.*", "pre_ffw_norm_2.*"},
    {"mlp.shared_expert.gate_proj.*", "ffn_gate.*"},
    {"mlp.shared_expert.up_proj.*", "ffn_up.*"},
    {"mlp.shared_expert.down_proj.*", "ffn_down.*"},
    {"mlp.router.scale", "ffn_gate_inp.scale"},
    {"mlp.router.expert_scale", "ffn_down_exps.scale"},
};
constexpr StoredForm kGemma3n[] = {
    {"altup.correct_output_scale", "altup_correct_scale.weight"},
    {"altup.correction_coefs.*", "altup_correct_coef.*"},
    {"altup.prediction_coefs.*", "altup_predict_coef.*"},
    {"altup.modality_router.*", "altup_router.*"},
    {"altup.router_norm.*", "altup_router_norm.*"},
    {"laurel.linear_left.*", "laurel_l.*"},
    {"laurel.linear_right.*", "laurel_r.*"},
    {"laurel.post_laurel_norm.*", "laurel_post_norm.*"},
};

/// Qwen3-Next and Qwen 3.5, before the common ones.
constexpr StoredForm kQwenLinear[] = {
    {"self_attn.q_proj.*", "attn_q.*", kGatedQuery},
    {"self_attn.gate_proj.*", "attn_q.*", kGateOfQuery},
    {"linear_attn.q_proj.weight", "attn_qkv.weight", kDeltaQuery},
    {"linear_attn.k_proj.weight", "attn_qkv.weight", kDeltaKey},
    {"linear_attn.q_conv.weight", "ssm_conv1d.weight", kDeltaQuery},
    {"linear_attn.k_conv.weight", "ssm_conv1d.weight", kDeltaKey},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
};
constexpr StoredForm kQwenNext[] = {
    {"linear_attn.v_proj.weight", "attn_qkv.weight", kDeltaValue},
    {"linear_attn.z_proj.weight", "attn_gate.weight"},
    {"linear_attn.b_proj.weight", "ssm_ba.weight", kDeltaFirstByHead},
    {"linear_attn.a_proj.weight", "ssm_ba.weight", kDeltaSecondByHead},
    {"linear_attn.v_conv.weight", "ssm_conv1d.weight", kDeltaValue},
    {"linear_attn.a_log", "ssm_a"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.o_proj.weight", "ssm_out.weight"},
    // the first files: projections by key head
    {"linear_attn.q_proj.weight", "ssm_in.weight", kDeltaQueryByHead},
    {"linear_attn.k_proj.weight", "ssm_in.weight", kDeltaKeyByHead},
    {"linear_attn.v_proj.weight", "ssm_in.weight", kDeltaValueByHead},
    {"linear_attn.z_proj.weight", "ssm_in.weight", kDeltaGateByHead},
};
/// Value heads in another order.
constexpr StoredForm kQwen35[] = {
    {"linear_attn.v_proj.weight", "attn_qkv.weight", kDeltaTiledValues},
    {"linear_attn.z_proj.weight", "attn_gate.weight", kTiledValues},
    {"linear_attn.b_proj.weight", "ssm_beta.weight", kTiledValues},
    {"linear_attn.a_proj.weight", "ssm_alpha.weight", kTiledValues},
    {"linear_attn.v_conv.weight", "ssm_conv1d.weight", kDeltaTiledValues},
    {"linear_attn.a_log", "ssm_a", kTiledValues},
    {"linear_attn.dt_bias", "ssm_dt.bias", kTiledValues},
    {"linear_attn.o_proj.weight", "ssm_out.weight", kAll, kOutputTiledInput},
};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// llama.cpp rotates neighbouring elements of these families' heads, so its conversion moves their rows.
constexpr std::string_view kPaired[] = {"granite", "granitemoe", "llama", "ministral3", "mixtral", "smollm3"};

/// Norms multiply by 1 + w, and files hold the sum.
constexpr std::string_view kShifted[] = {"gemma2",           "gemma3_text",  "nemotron",
                                         "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"};

constexpr std::string_view kLatentTypes[] = {"deepseek_v2", "deepseek_v3", "mistral4"};
constexpr std::string_view kQwen35Types[] = {"qwen3_5_moe_text", "qwen3_5_text"};

}  // namespace

FamilyNames names_in_gguf(std::string_view model_type) {
  FamilyNames names{kPrefixes, "blk.{n}.", kModel, {}};
  if (model_type == "glm4" || model_type == "phi3") names.layer_forms.push_back(kFusedGate);
  if (model_type == "falcon") names.layer_forms.push_back(kFalcon);
  if (model_type == "gemma3n_text" || model_type == "gemma4_text") {
    names.model = kGemma4Model;
    names.layer_forms.push_back(kGemma4);
  }
  if (model_type == "gemma3n_text") names.layer_forms.push_back(kGemma3n);
  if (is_one_of(model_type, kLatentTypes)) names.layer_forms.push_back(kLatent);
  const bool is_qwen35 = is_one_of(model_type, kQwen35Types);
  names.stores_decay = is_qwen35 || model_type == "qwen3_next";
  if (names.stores_decay) {
    names.layer_forms.push_back(kQwenLinear);
    names.layer_forms.push_back(is_qwen35 ? std::span<const StoredForm>(kQwen35) : kQwenNext);
  }
  names.layer_forms.push_back(kLayer);
  if (!names.stores_decay) names.layer_forms.push_back(kFusedAttention);
  names.layer_forms.push_back(kExperts);
  names.pairs_rows = is_one_of(model_type, kPaired);
  names.shifts_norms = is_one_of(model_type, kShifted);
  return names;
}

}  // namespace lockstep::checkpoint
