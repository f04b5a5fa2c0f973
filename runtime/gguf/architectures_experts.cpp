// Mixtures of experts, as model types of transformers.
#include "runtime/gguf/config_writer.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

constexpr std::string_view kBiasOfQueries = "blk.0.attn_q.bias";

/// The keys of DeepSeek's routers and of those after it.
constexpr KeyPair kRouter[] = {{"expert_feed_forward_length", "moe_intermediate_size"},
                               {"expert_used_count", "num_experts_per_tok"},
                               {"leading_dense_block_count", "first_k_dense_replace"},
                               {"expert_weights_scale", "routed_scaling_factor"},
                               {"expert_group_count", "n_group"},
                               {"expert_group_used_count", "topk_group"}};

/// The layers that predict further tokens are the last ones of a file, and not part of the model.
Result<void> leave_out_drafting_layers(ConfigWriter& writer) {
  LOCKSTEP_TRY(const int64_t drafting, writer.integer_or("nextn_predict_layers", 0));
  LOCKSTEP_TRY(const int64_t layers, writer.integer("block_count"));
  writer.config()["num_hidden_layers"] = layers - drafting;
  return ok();
}

Result<void> finish_qwen2moe(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "num_experts"},
                               {"expert_used_count", "num_experts_per_tok"},
                               {"expert_feed_forward_length", "moe_intermediate_size"},
                               {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}};
  json& config = writer.config();
  config["norm_topk_prob"] = false;
  config["qkv_bias"] = writer.has_tensor(kBiasOfQueries);
  return writer.copy(kKeys);
}

Result<void> finish_qwen3moe(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "num_experts"},
                               {"expert_used_count", "num_experts_per_tok"},
                               {"expert_feed_forward_length", "moe_intermediate_size"}};
  writer.config()["norm_topk_prob"] = true;
  if (writer.has_tensor(kBiasOfQueries)) writer.config()["attention_bias"] = true;
  return writer.copy(kKeys);
}

Result<void> finish_olmoe(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "num_experts"}, {"expert_used_count", "num_experts_per_tok"}};
  writer.erase("head_dim");
  writer.config()["norm_topk_prob"] = false;
  return writer.copy(kKeys);
}

Result<void> finish_gpt_oss(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "num_local_experts"},
                               {"expert_used_count", "num_experts_per_tok"},
                               {"expert_feed_forward_length", "intermediate_size"},
                               {"attention.sliding_window", "sliding_window"}};
  json& config = writer.config();
  config["attention_bias"] = writer.has_tensor(kBiasOfQueries);
  if (config.contains("rope_scaling")) config["rope_scaling"]["truncate"] = false;
  return writer.copy(kKeys);
}

Result<void> finish_glm4moe(ConfigWriter& writer) {
  json& config = writer.config();
  constexpr KeyPair kKeys[] = {{"expert_count", "n_routed_experts"},
                               {"expert_shared_count", "n_shared_experts"},
                               {"expert_weights_norm", "norm_topk_prob"}};
  LOCKSTEP_TRY_VOID(writer.copy(kRouter));
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  LOCKSTEP_TRY_VOID(leave_out_drafting_layers(writer));
  config["attention_bias"] = writer.has_tensor(kBiasOfQueries);
  config["use_qk_norm"] = writer.has_tensor("blk.0.attn_q_norm.weight");
  return write_rotated_part(writer, "partial_rotary_factor");
}

Result<void> finish_ernie4_5_moe(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "moe_num_experts"},
                               {"expert_used_count", "moe_k"},
                               {"expert_feed_forward_length", "moe_intermediate_size"},
                               {"expert_shared_count", "moe_num_shared_experts"},
                               {"leading_dense_block_count", "moe_layer_start_index"},
                               {"interleave_moe_layer_step", "moe_layer_interval"}};
  return writer.copy(kKeys);
}

Result<void> finish_dots1(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "n_routed_experts"},
                               {"expert_shared_count", "n_shared_experts"},
                               {"expert_weights_norm", "norm_topk_prob"}};
  writer.config()["sliding_window"] = json();
  LOCKSTEP_TRY_VOID(writer.copy(kRouter));
  return writer.copy(kKeys);
}

Result<void> finish_exaone_moe(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "num_experts"},
                               {"expert_shared_count", "num_shared_experts"},
                               {"expert_weights_norm", "norm_topk_prob"}};
  LOCKSTEP_TRY(const int64_t window, writer.integer_or("attention.sliding_window", 0));
  writer.config()["sliding_window"] = window > 0 ? json(window) : json();
  if (window > 0) LOCKSTEP_TRY_VOID(write_layer_types(writer));
  LOCKSTEP_TRY_VOID(writer.copy(kRouter));
  LOCKSTEP_TRY_VOID(leave_out_drafting_layers(writer));
  return writer.copy(kKeys);
}

Result<void> finish_minimax_m2(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "num_local_experts"},
                               {"expert_used_count", "num_experts_per_tok"},
                               {"expert_feed_forward_length", "intermediate_size"},
                               {"rope.dimension_count", "rotary_dim"}};
  return writer.copy(kKeys);
}

/// The sizes of latent attention. Files count one key/value head; older ones have other names for the sizes of a head.
Result<void> write_latent_sizes(ConfigWriter& writer) {
  json& config = writer.config();
  const bool is_new = writer.has("attention.key_length_mla");
  LOCKSTEP_TRY(const int64_t key, writer.integer(is_new ? "attention.key_length_mla" : "attention.key_length"));
  LOCKSTEP_TRY(const int64_t value, writer.integer(is_new ? "attention.value_length_mla" : "attention.value_length"));
  LOCKSTEP_TRY(const int64_t rotated, writer.integer("rope.dimension_count"));
  constexpr KeyPair kKeys[] = {{"attention.kv_lora_rank", "kv_lora_rank"}, {"attention.q_lora_rank", "q_lora_rank"}};
  config["q_lora_rank"] = json();
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  config["qk_rope_head_dim"] = rotated;
  config["qk_nope_head_dim"] = key - rotated;
  config["v_head_dim"] = value;
  config["num_key_value_heads"] = config["num_attention_heads"];
  writer.erase("head_dim");
  if (!config.contains("rope_scaling")) return ok();
  LOCKSTEP_TRY(const double of_all, writer.number_or("rope.scaling.yarn_log_multiplier", 0.0));
  if (of_all != 0.0) config["rope_scaling"]["mscale"] = config["rope_scaling"]["mscale_all_dim"] = of_all / 0.1;
  return ok();
}

/// DeepSeek-V2 chooses by softmax, V3 by sigmoid.
Result<void> finish_deepseek2(ConfigWriter& writer) {
  json& config = writer.config();
  constexpr KeyPair kKeys[] = {{"expert_count", "n_routed_experts"}, {"expert_shared_count", "n_shared_experts"}};
  LOCKSTEP_TRY_VOID(write_latent_sizes(writer));
  LOCKSTEP_TRY_VOID(writer.copy(kRouter));
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  LOCKSTEP_TRY_VOID(leave_out_drafting_layers(writer));
  LOCKSTEP_TRY(const int64_t gating, writer.integer_or("expert_gating_func", 1));
  LOCKSTEP_TRY(const int64_t groups, writer.integer_or("expert_group_count", 1));
  if (gating == 2) {
    config["model_type"] = "deepseek_v3";
    constexpr KeyPair kNorm[] = {{"expert_weights_norm", "norm_topk_prob"}};
    if (!writer.has("expert_group_count")) config["n_group"] = config["topk_group"] = 1;
    return writer.copy(kNorm);
  }
  config["topk_method"] = groups > 1 ? "group_limited_greedy" : "greedy";
  return ok();
}

constexpr Architecture kExperts[] = {
    {"deepseek2", "deepseek_v2", "rms_norm_eps", finish_deepseek2},
    {"dots1", "dots1", "rms_norm_eps", finish_dots1},
    {"ernie4_5-moe", "ernie4_5_moe", "rms_norm_eps", finish_ernie4_5_moe},
    {"exaone-moe", "exaone_moe", "rms_norm_eps", finish_exaone_moe},
    {"glm4moe", "glm4_moe", "rms_norm_eps", finish_glm4moe},
    {"gpt-oss", "gpt_oss", "rms_norm_eps", finish_gpt_oss},
    {"minimax-m2", "minimax_m2", "rms_norm_eps", finish_minimax_m2},
    {"olmoe", "olmoe", "rms_norm_eps", finish_olmoe},
    {"qwen2moe", "qwen2_moe", "rms_norm_eps", finish_qwen2moe},
    {"qwen3moe", "qwen3_moe", "rms_norm_eps", finish_qwen3moe},
};

}  // namespace

std::span<const Architecture> expert_architectures() { return kExperts; }

}  // namespace lockstep::gguf
