#include "tests/model/odd_models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::model {
namespace {

using nlohmann::json;

/// A config is `base` with `changes` on top.
struct Recipe {
  const char* name;
  const char* base;
  const char* changes;
};

// The common base of Llama and its successors: nine heads of 10 over three.
constexpr const char* kGated = R"({"hidden_size": 45, "intermediate_size": 37, "num_hidden_layers": 2,
  "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 10, "max_position_embeddings": 128,
  "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": 67, "tie_word_embeddings": false,
  "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"})";
constexpr const char* kPlain = R"({"bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32",
  "tie_word_embeddings": false, "vocab_size": 71})";

constexpr Recipe kRecipes[] = {
    {"llama_tied", kGated, R"({"model_type": "llama", "tie_word_embeddings": true})"},
    {"llama_biases_one_kv_head", kGated,
     R"({"model_type": "llama", "num_key_value_heads": 1, "attention_bias": true, "mlp_bias": true,
         "intermediate_size": 149, "vocab_size": 101, "rope_scaling": {"type": "linear", "factor": 4.0}})"},
    {"llama_yarn_eleven_heads", kGated,
     R"({"model_type": "llama", "num_attention_heads": 11, "num_key_value_heads": 11, "head_dim": 6,
         "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}})"},
    {"mistral_window", kGated,
     R"({"model_type": "mistral", "num_attention_heads": 10, "num_key_value_heads": 2, "sliding_window": 7})"},
    {"ministral_mixed", kGated,
     R"({"model_type": "ministral", "sliding_window": 5,
         "layer_types": ["sliding_attention", "full_attention"]})"},
    {"qwen2", kGated,
     R"({"model_type": "qwen2", "hidden_size": 54, "head_dim": null, "use_sliding_window": true, "sliding_window": 6,
         "max_window_layers": 1, "intermediate_size": 51})"},
    {"qwen3_biases", kGated,
     R"({"model_type": "qwen3", "attention_bias": true, "use_sliding_window": false, "intermediate_size": 43,
         "vocab_size": 61})"},
    {"phi3_longrope", kGated,
     R"({"model_type": "phi3", "hidden_size": 72, "head_dim": null, "original_max_position_embeddings": 16,
         "pad_token_id": 0, "sliding_window": null, "rope_scaling": {"type": "longrope",
         "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.5, 2.0, 3.0, 4.5]}})"},
    {"phi3_partial_window", kGated,
     R"({"model_type": "phi3", "hidden_size": 144, "head_dim": null, "original_max_position_embeddings": 128,
         "pad_token_id": 0, "sliding_window": 9, "partial_rotary_factor": 0.5})"},
    {"gemma2_caps", kGated,
     R"({"model_type": "gemma2", "head_dim": 14, "hidden_activation": "gelu_pytorch_tanh",
         "query_pre_attn_scalar": 24, "sliding_window": 8, "attn_logit_softcapping": 3.0,
         "final_logit_softcapping": 1.5, "intermediate_size": 53, "tie_word_embeddings": true})"},
    {"gemma3", kGated,
     R"({"model_type": "gemma3_text", "num_attention_heads": 10, "num_key_value_heads": 5,
         "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 24, "sliding_window": 8,
         "rope_local_base_freq": 5000.0, "sliding_window_pattern": 2, "tie_word_embeddings": true})"},
    {"gemma3n_streams", kGated,
     R"({"model_type": "gemma3n_text", "rope_theta": null, "hidden_act": null, "num_hidden_layers": 4,
         "hidden_size_per_layer_input": 7, "vocab_size_per_layer_input": 61, "num_kv_shared_layers": 2,
         "sliding_window": 8, "altup_num_inputs": 3, "laurel_rank": 5, "tie_word_embeddings": true,
         "activation_sparsity_pattern": [0.6, 0.0, 0.4, 0.0],
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})"},
    {"gemma4_layer_inputs_shared_caches", kGated,
     R"({"model_type": "gemma4_text", "rope_theta": null, "hidden_act": null, "global_head_dim": 14,
         "num_hidden_layers": 4, "hidden_size_per_layer_input": 7, "vocab_size_per_layer_input": 67,
         "num_kv_shared_layers": 2, "use_double_wide_mlp": true, "sliding_window": 8, "tie_word_embeddings": true,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})"},
    {"gemma4_keys_are_values", kGated,
     R"({"model_type": "gemma4_text", "rope_theta": null, "hidden_act": null, "global_head_dim": 6,
         "num_attention_heads": 10, "num_key_value_heads": 5, "num_global_key_value_heads": 2,
         "attention_k_eq_v": true, "hidden_size_per_layer_input": 0, "sliding_window": 8,
         "tie_word_embeddings": true, "layer_types": ["sliding_attention", "full_attention"]})"},
    {"gemma4_mlp_beside_experts", kGated,
     R"({"model_type": "gemma4_text", "rope_theta": null, "hidden_act": null, "global_head_dim": 14,
         "enable_moe_block": true, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 27,
         "hidden_size_per_layer_input": 0, "sliding_window": 8, "tie_word_embeddings": true,
         "layer_types": ["sliding_attention", "full_attention"]})"},
    {"gpt_oss_sinks", kGated,
     R"({"model_type": "gpt_oss", "num_attention_heads": 10, "num_key_value_heads": 2, "num_local_experts": 5,
         "num_experts_per_tok": 2, "experts_per_token": 2, "attention_bias": true, "swiglu_limit": 1.5,
         "sliding_window": 8, "intermediate_size": 33, "layer_types": ["sliding_attention", "full_attention"]})"},
    {"mixtral_window", kGated,
     R"({"model_type": "mixtral", "num_local_experts": 7, "num_experts_per_tok": 3, "sliding_window": 5,
         "intermediate_size": 27, "vocab_size": 79})"},
    {"qwen3_5_delta_rule", kGated,
     R"({"model_type": "qwen3_5_text", "intermediate_size": 41, "partial_rotary_factor": 0.4,
         "linear_num_key_heads": 3, "linear_num_value_heads": 9, "linear_key_head_dim": 6,
         "linear_value_head_dim": 7, "layer_types": ["linear_attention", "full_attention"], "rope_theta": 1e6})"},
    {"qwen2_moe_shared_and_dense", kGated,
     R"({"model_type": "qwen2_moe", "hidden_size": 54, "head_dim": null, "num_hidden_layers": 3, "num_experts": 5,
         "num_experts_per_tok": 2, "moe_intermediate_size": 27, "shared_expert_intermediate_size": 41,
         "mlp_only_layers": [1]})"},
    {"glm4_moe_groups", kGated,
     R"({"model_type": "glm4_moe", "n_routed_experts": 6, "num_experts_per_tok": 3, "n_shared_experts": 2, "n_group": 3,
         "topk_group": 2, "moe_intermediate_size": 27, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5,
         "use_qk_norm": true, "partial_rotary_factor": 0.4})"},
    {"deepseek_v3_latent_attention", kGated,
     R"({"model_type": "deepseek_v3", "num_key_value_heads": 9, "head_dim": null, "q_lora_rank": 21, "kv_lora_rank": 13,
         "qk_nope_head_dim": 7, "qk_rope_head_dim": 6, "v_head_dim": 5, "n_routed_experts": 6, "num_experts_per_tok": 3,
         "n_shared_experts": 2, "n_group": 3, "topk_group": 2, "moe_intermediate_size": 27, "first_k_dense_replace": 1,
         "attention_bias": true, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0,
         "mscale_all_dim": 1.0, "original_max_position_embeddings": 16}})"},
    {"llama4_chunks", kGated,
     R"({"model_type": "llama4_text", "num_local_experts": 5, "intermediate_size": 27, "intermediate_size_mlp": 41,
         "interleave_moe_layer_step": 2, "no_rope_layers": [1, 0], "attention_chunk_size": 7, "floor_scale": 5,
         "attn_scale": 0.3, "use_qk_norm": true})"},
    {"ministral3_scaled_queries", kGated,
     R"({"model_type": "ministral3", "rope_theta": null, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0,
         "factor": 4.0, "original_max_position_embeddings": 8, "llama_4_scaling_beta": 0.3}})"},
    {"olmo2_norms_across_heads", kGated, R"({"model_type": "olmo2", "attention_bias": true})"},
    {"olmoe_shares_of_all", kGated,
     R"({"model_type": "olmoe", "hidden_size": 54, "head_dim": null, "num_experts": 5, "num_experts_per_tok": 2,
         "intermediate_size": 27})"},
    {"phi", kGated,
     R"({"model_type": "phi", "hidden_size": 90, "head_dim": null, "rms_norm_eps": null, "hidden_act": "gelu_new",
         "partial_rotary_factor": 0.4})"},
    {"cohere2_windows", kGated,
     R"({"model_type": "cohere2", "hidden_size": 54, "head_dim": null, "rms_norm_eps": null, "layer_norm_eps": 1e-5,
         "sliding_window": 6, "sliding_window_pattern": 2, "tie_word_embeddings": true})"},
    {"nemotron_biases", kGated,
     R"({"model_type": "nemotron", "rms_norm_eps": null, "norm_eps": 1e-5, "hidden_act": "relu2", "mlp_bias": true,
         "attention_bias": true, "partial_rotary_factor": 0.4})"},
    {"falcon_grouped", kPlain,
     R"({"model_type": "falcon", "hidden_size": 54, "ffn_hidden_size": 47, "num_hidden_layers": 2,
         "num_attention_heads": 9, "num_kv_heads": 3, "new_decoder_architecture": true, "bias": true,
         "max_position_embeddings": 128})"},
    {"gpt2", kPlain,
     R"({"model_type": "gpt2", "n_positions": 128, "n_embd": 66, "n_layer": 2, "n_head": 11, "n_inner": 47,
         "scale_attn_by_inverse_layer_idx": true})"},
    {"gptj_parallel", kPlain,
     R"({"model_type": "gptj", "n_positions": 128, "n_embd": 90, "n_layer": 2, "n_head": 9, "n_inner": 50,
         "rotary_dim": 6, "rotary": true})"},
    {"neox_parallel", kPlain,
     R"({"model_type": "gpt_neox", "hidden_size": 72, "intermediate_size": 59, "num_hidden_layers": 2,
         "num_attention_heads": 9, "max_position_embeddings": 128, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
         "rotary_pct": 0.5, "rotary_emb_base": 1000, "use_parallel_residual": true})"},
    {"neox_sequential", kPlain,
     R"({"model_type": "gpt_neox", "hidden_size": 90, "intermediate_size": 41, "num_hidden_layers": 2,
         "num_attention_heads": 9, "max_position_embeddings": 128, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
         "rotary_pct": 0.4, "rotary_emb_base": 1000, "use_parallel_residual": false, "attention_bias": true})"},
    {"bloom_alibi", kPlain,
     R"({"model_type": "bloom", "hidden_size": 63, "n_layer": 2, "n_head": 9, "seq_length": 128,
         "apply_residual_connection_post_layernorm": true})"},
    {"opt_projected", kPlain,
     R"({"model_type": "opt", "hidden_size": 63, "ffn_dim": 47, "num_hidden_layers": 2, "num_attention_heads": 9,
         "max_position_embeddings": 128, "activation_function": "relu", "pad_token_id": 1, "word_embed_proj_dim": 21,
         "do_layer_norm_before": false})"},
};

}  // namespace

std::vector<OddModel> odd_models() {
  std::vector<OddModel> models;
  for (const Recipe& recipe : kRecipes) {
    json config = json::parse(recipe.base);
    config.merge_patch(json::parse(recipe.changes));
    models.push_back({recipe.name, config.dump()});
  }
  return models;
}

OddModelDirectory::OddModelDirectory(const OddModel& model)
    : path_(std::filesystem::path(::testing::TempDir()) / fmt::format("lockstep_odd_{}_{}", model.name, getpid())) {
  std::filesystem::create_directories(path_);
  std::ofstream(path_ / "config.json") << model.config;
}

OddModelDirectory::~OddModelDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep::model
