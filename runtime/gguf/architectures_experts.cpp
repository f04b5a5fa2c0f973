// Mixtures of experts, as model types of transformers.
#include <fmt/format.h>

#include "runtime/gguf/config_writer.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

constexpr std::string_view kBiasOfQueries = "blk.0.attn_q.bias";
constexpr int64_t kSoftmax = 1, kSigmoid = 2;  // of expert_gating_func

/// The keys of DeepSeek's routers and of those after it.
constexpr KeyPair kRouter[] = {{"expert_feed_forward_length", "moe_intermediate_size"},
                               {"expert_used_count", "num_experts_per_tok"},
                               {"leading_dense_block_count", "first_k_dense_replace"},
                               {"expert_weights_scale", "routed_scaling_factor"},
                               {"expert_group_count", "n_group"},
                               {"expert_group_used_count", "topk_group"}};

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

/// What the families with latent attention have in common.
Result<void> write_latent_mixture(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "n_routed_experts"}, {"expert_shared_count", "n_shared_experts"}};
  LOCKSTEP_TRY_VOID(write_latent_sizes(writer));
  LOCKSTEP_TRY_VOID(writer.copy(kRouter));
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  return leave_out_drafting_layers(writer);
}

/// Of files without a key that says how experts are chosen: by sigmoid if the choice has a bias.
Result<int64_t> gating_of(const ConfigWriter& writer) {
  LOCKSTEP_TRY(const int64_t dense, writer.integer_or("leading_dense_block_count", 0));
  const bool has_bias = writer.has_tensor(fmt::format("blk.{}.exp_probs_b.bias", dense));
  return writer.integer_or("expert_gating_func", has_bias ? kSigmoid : kSoftmax);
}

/// A choice without groups is one of one group.
Result<void> write_one_group(ConfigWriter& writer) {
  constexpr KeyPair kNorm[] = {{"expert_weights_norm", "norm_topk_prob"}};
  if (!writer.has("expert_group_count")) writer.config()["n_group"] = writer.config()["topk_group"] = 1;
  writer.config()["norm_topk_prob"] = false;  // files have no key for it
  return writer.copy(kNorm);
}

/// Mistral 4. llama.cpp's conversion drops the growth of queries; transformers' default is used instead.
Result<void> finish_mistral4(ConfigWriter& writer) {
  constexpr double kGrowth = 0.1;
  LOCKSTEP_TRY_VOID(write_latent_mixture(writer));
  LOCKSTEP_TRY_VOID(write_one_group(writer));
  json& config = writer.config();
  config["model_type"] = "mistral4";
  if (!config.contains("rope_scaling")) return writer.unsupported("found no YaRN, expected the one of Mistral 4");
  LOCKSTEP_TRY(const double beta, writer.number_or("attention.temperature_scale", kGrowth));
  write_growing_rope(writer, beta, config["rope_scaling"].value("mscale", 1.0));
  return ok();
}

/// DeepSeek-V2 chooses by softmax, V3 and GLM-4.7-Flash by sigmoid; the queries of Mistral Large 3 grow.
Result<void> finish_deepseek2(ConfigWriter& writer) {
  // Conversions of V3 and R1 from before the key of groups lack it; no other model of this kind has as many experts.
  constexpr int64_t kOfV3 = 256, kGroupsOfV3 = 8, kKeptOfV3 = 4;
  if (writer.has("attention.temperature_scale")) return finish_mistral4(writer);
  json& config = writer.config();
  LOCKSTEP_TRY_VOID(write_latent_mixture(writer));
  LOCKSTEP_TRY(const int64_t gating, gating_of(writer));
  if (gating == kSigmoid) {
    config["model_type"] = "deepseek_v3";
    LOCKSTEP_TRY_VOID(write_one_group(writer));
    LOCKSTEP_TRY(const int64_t experts, writer.integer_or("expert_count", 0));
    if (experts == kOfV3 && !writer.has("expert_group_count")) {
      config["n_group"] = kGroupsOfV3;
      config["topk_group"] = kKeptOfV3;
    }
    return ok();
  }
  LOCKSTEP_TRY(const int64_t groups, writer.integer_or("expert_group_count", 1));
  config["topk_method"] = groups > 1 ? "group_limited_greedy" : "greedy";
  return ok();
}

/// Llama 4. Chunks, their layers and the growth of queries are in the program's code, as are norms of heads, which the
/// model of 128 experts does not have.
Result<void> finish_llama4(ConfigWriter& writer) {
  constexpr int64_t kOfTheLargest = 128, kChunk = 8192;
  constexpr KeyPair kKeys[] = {{"expert_count", "num_local_experts"},
                               {"expert_used_count", "num_experts_per_tok"},
                               {"expert_feed_forward_length", "intermediate_size"},
                               {"interleave_moe_layer_step", "interleave_moe_layer_step"}};
  json& config = writer.config();
  LOCKSTEP_TRY(const int64_t experts, writer.integer_or("expert_count", 0));
  if (experts < 1) return writer.unsupported("found a Llama 4 without experts (MobileLLM), expected one with experts");
  writer.rename("intermediate_size", "intermediate_size_mlp");
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  config["use_qk_norm"] = experts != kOfTheLargest;
  if (writer.has_tensor(kBiasOfQueries)) config["attention_bias"] = true;
  LOCKSTEP_TRY(const int64_t window, writer.integer_or("attention.sliding_window", kChunk));
  config["attention_chunk_size"] = window > 0 ? json(kChunk) : json();
  if (window > 0) return ok();
  LOCKSTEP_TRY(const int64_t layers, writer.integer("block_count"));
  config["no_rope_layer_interval"] = layers + 1;  // all have one
  return ok();
}

/// Hy3: the layers without experts are the first ones.
Result<void> finish_hy_v3(ConfigWriter& writer) {
  constexpr KeyPair kKeys[] = {{"expert_count", "num_experts"},
                               {"expert_used_count", "num_experts_per_tok"},
                               {"expert_feed_forward_length", "moe_intermediate_size"},
                               {"expert_weights_scale", "router_scaling_factor"}};
  json& config = writer.config();
  LOCKSTEP_TRY_VOID(writer.copy(kKeys));
  LOCKSTEP_TRY_VOID(leave_out_drafting_layers(writer));
  LOCKSTEP_TRY(const json sums_to_one, writer.value("expert_weights_norm"));
  LOCKSTEP_TRY(const int64_t gating, writer.integer_or("expert_gating_func", kSigmoid));
  if (sums_to_one == false || gating != kSigmoid) {
    return writer.unsupported("found another router, expected one of sigmoids whose shares sum to one");
  }
  int64_t most = 0, dense = 0;  // layers: no more than tensors
  for (const GgufHeader& part : writer.model().parts) most += std::ssize(part.tensors);
  while (dense < most && !writer.has_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", dense))) ++dense;
  config["first_k_dense_replace"] = dense;
  LOCKSTEP_TRY(const int64_t own, writer.integer("expert_feed_forward_length"));
  LOCKSTEP_TRY(const int64_t shared, writer.integer_or("expert_shared_feed_forward_length", own));
  if (own < 1 || shared % own != 0) {
    return writer.wrong("expert_shared_feed_forward_length",
                        fmt::format("found {}, expected a multiple of {}, that of an expert", shared, own));
  }
  config["num_shared_experts"] = shared / own;
  if (writer.has_tensor(kBiasOfQueries)) config["attention_bias"] = true;
  return ok();
}

constexpr Architecture kExperts[] = {
    {"deepseek2", "deepseek_v2", "rms_norm_eps", finish_deepseek2},
    {"dots1", "dots1", "rms_norm_eps", finish_dots1},
    {"ernie4_5-moe", "ernie4_5_moe", "rms_norm_eps", finish_ernie4_5_moe},
    {"exaone-moe", "exaone_moe", "rms_norm_eps", finish_exaone_moe},
    {"glm4moe", "glm4_moe", "rms_norm_eps", finish_glm4moe},
    {"gpt-oss", "gpt_oss", "rms_norm_eps", finish_gpt_oss},
    {"hy_v3", "hy_v3", "rms_norm_eps", finish_hy_v3},
    {"llama4", "llama4_text", "rms_norm_eps", finish_llama4},
    {"minimax-m2", "minimax_m2", "rms_norm_eps", finish_minimax_m2},
    {"mistral4", "mistral4", "rms_norm_eps", finish_mistral4},
    {"olmoe", "olmoe", "rms_norm_eps", finish_olmoe},
    {"qwen2moe", "qwen2_moe", "rms_norm_eps", finish_qwen2moe},
    {"qwen3moe", "qwen3_moe", "rms_norm_eps", finish_qwen3moe},
};

}  // namespace

std::span<const Architecture> expert_architectures() { return kExperts; }

}  // namespace lockstep::gguf
