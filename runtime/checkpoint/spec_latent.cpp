// Families with latent attention: DeepSeek-V2 and V3 (Kimi K2 too), GLM-4.7-Flash, Mistral 4.
#include <fmt/format.h>

#include <cmath>

#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

/// The defaults of a family's own keys.
struct LatentKeys {
  int64_t query_rank, rank, plain_dim, value_dim;
};

FamilyKeys keys_of_mixture(int64_t expert_size, int64_t max_positions) {
  FamilyKeys keys;
  keys.head_dim = {"qk_rope_head_dim", 64};  // what the rope is made for; then that of a key in the cache
  keys.intermediate_size = {"moe_intermediate_size", expert_size};
  keys.max_positions.otherwise = max_positions;
  return keys;
}

/// The factor on scores of a stretched rope, as transformers' yarn_apply_mscale.
double stretched_scale(const RopeSpec& rope) {
  const double of_all = rope.mscale_all_dim.value_or(0.0);
  if (of_all == 0.0 || rope.factor <= 1.0) return 1.0;
  const double mscale = 0.1 * of_all * std::log(rope.factor) + 1.0;
  return mscale * mscale;
}

/// Reads the sizes of latent attention beside the rope, which is read; one key head stands for all heads of the
/// checkpoint.
Result<void> read_latent_attention(const KeyReader& config, const LatentKeys& keys, ModelSpec& spec) {
  if (spec.key_value_heads != spec.query_heads) {
    return unsupported(config, "num_key_value_heads", fmt::format("{}", spec.key_value_heads),
                       fmt::format("{}, the query heads", spec.query_heads));
  }
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LatentAttention latent{.rotated_dim = spec.head_dim};
  if (!config.is_null("q_lora_rank")) {
    LOCKSTEP_TRY(latent.query_rank, config.integer_or("q_lora_rank", keys.query_rank, kWidth));
  }
  LOCKSTEP_TRY(latent.rank, config.integer_or("kv_lora_rank", keys.rank, kWidth));
  LOCKSTEP_TRY(latent.plain_dim, config.integer_or("qk_nope_head_dim", keys.plain_dim, kWidth));
  LOCKSTEP_TRY(latent.value_dim, config.integer_or("v_head_dim", keys.value_dim, kWidth));
  spec.attention_scale = stretched_scale(spec.rope) / std::sqrt(static_cast<double>(latent.query_dim()));
  spec.key_value_heads = 1;
  spec.head_dim = latent.rank + latent.rotated_dim;
  spec.latent = latent;
  return ok();
}

/// The rope's pairs in the checkpoint.
Result<void> read_pairs(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(const bool interleaves, config.boolean_or("rope_interleave", true));
  if (interleaves) spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  return ok();
}

/// Softmax over all experts; those of the best groups, or all, may be chosen.
Result<void> read_deepseek_v2_router(const KeyReader& config, ModelSpec& spec) {
  spec.router.sum_to_one = false;
  LOCKSTEP_TRY(spec.router.scale, config.number_or("routed_scaling_factor", 1.0, kPositive));
  LOCKSTEP_TRY(const std::string method, config.text_or("topk_method", "greedy"));
  if (method == "group_limited_greedy") return read_groups(config, {}, RouterSpec::GroupScore::kBest, spec);
  if (method == "greedy") return ok();
  return unsupported(config, "topk_method", fmt::format("\"{}\"", method), "greedy or group_limited_greedy");
}

Result<ModelSpec> read_deepseek_v2(const KeyReader& config) {
  FamilyKeys keys = keys_of_mixture(/*expert_size=*/1407, /*max_positions=*/2048);
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "deepseek_v2", keys));
  LOCKSTEP_TRY_VOID(require_switch(config, "mlp_bias", false));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  LOCKSTEP_TRY_VOID(read_latent_attention(config, {1536, 512, 128, 128}, spec));
  LOCKSTEP_TRY(const int64_t chosen, config.integer("num_experts_per_tok", kExperts));
  LOCKSTEP_TRY_VOID(read_experts(config, 64, chosen, spec));
  LOCKSTEP_TRY_VOID(read_deepseek_v2_router(config, spec));
  LOCKSTEP_TRY_VOID(read_first_dense_layers(config, 0, {"intermediate_size", 11008}, spec));
  LOCKSTEP_TRY_VOID(read_shared_expert(config, {"n_shared_experts", 2}, kExperts.least, spec));
  return spec;
}

constexpr std::string_view kDeepseekV2Idle[] = {
    "head_dim",       "qk_head_dim",                // transformers computes them
    "norm_topk_prob",                               // transformers' model does not divide
    "n_group",        "topk_group",                 // read where topk_method asks for groups
    "scoring_func",   "moe_layer_freq",             // transformers' model has one form of what these choose
    "ep_size",        "aux_loss_alpha", "seq_aux",  // of training
};

Result<ModelSpec> read_deepseek_v3(const KeyReader& config) {
  FamilyKeys keys = keys_of_mixture(/*expert_size=*/2048, /*max_positions=*/4096);
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "deepseek_v3", keys));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY_VOID(read_pairs(config, spec));
  LOCKSTEP_TRY_VOID(read_latent_attention(config, {1536, 512, 128, 128}, spec));
  LOCKSTEP_TRY_VOID(read_experts(config, 256, 8, spec));
  LOCKSTEP_TRY_VOID(read_grouped_router(config, {.groups = 8, .kept = 4}, /*sum_to_one=*/true, /*scale=*/2.5, spec));
  LOCKSTEP_TRY_VOID(read_first_dense_layers(config, 3, {"intermediate_size", 18432}, spec));
  LOCKSTEP_TRY_VOID(read_shared_expert(config, {"n_shared_experts", 1}, kExperts.least, spec));
  return spec;
}

Result<ModelSpec> read_glm4_moe_lite(const KeyReader& config) {
  FamilyKeys keys = keys_of_mixture(/*expert_size=*/1536, /*max_positions=*/202752);
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "glm4_moe_lite", keys));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY_VOID(read_pairs(config, spec));
  LOCKSTEP_TRY_VOID(read_latent_attention(config, {768, 512, 192, 256}, spec));
  LOCKSTEP_TRY_VOID(read_experts(config, 64, 4, spec));
  LOCKSTEP_TRY_VOID(read_grouped_router(config, {}, /*sum_to_one=*/true, /*scale=*/1.8, spec));
  LOCKSTEP_TRY_VOID(read_first_dense_layers(config, 1, {"intermediate_size", 10240}, spec));
  LOCKSTEP_TRY_VOID(read_shared_expert(config, {"n_shared_experts", 1}, kExperts.least, spec));
  return spec;
}

nlohmann::json default_mistral4_rope() {
  return {{"rope_type", "yarn"}, {"rope_theta", 10000.0}, {"factor", 128.0},
          {"beta_fast", 32.0},   {"beta_slow", 1.0},      {"original_max_position_embeddings", 8192},
          {"mscale", 1.0},       {"mscale_all_dim", 1.0}, {"llama_4_scaling_beta", 0.1}};
}

/// The part of a query head that rotates is the one that the sizes say.
Result<void> read_mistral4_rope(const KeyReader& config, int64_t plain_dim, ModelSpec& spec) {
  LOCKSTEP_TRY(const std::string_view key, rope_key(config));
  LOCKSTEP_TRY(const auto given, config.object(key));
  if (!given) return read_growing_rope(config, default_mistral4_rope(), spec);
  nlohmann::json rope = *config.find(key);
  rope.erase("partial_rotary_factor");
  LOCKSTEP_TRY_VOID(read_growing_rope(config, rope, spec));
  const double own = static_cast<double>(spec.head_dim) / static_cast<double>(plain_dim + spec.head_dim);
  LOCKSTEP_TRY(const double part, given->number_or("partial_rotary_factor", own, kPositive));
  if (std::abs(part - own) < 1e-6) return ok();
  return unsupported(*given, "partial_rotary_factor", fmt::format("{}", part),
                     fmt::format("{}, qk_rope_head_dim of a head", own));
}

constexpr std::string_view kDeepseekV3Idle[] = {
    "head_dim",
    "qk_head_dim",  // transformers computes them
    "scoring_func",
    "topk_method",
    "moe_layer_freq",  // transformers' model has one form of what these choose
    "ep_size",
    "aux_loss_alpha",
    "seq_aux",  // of training
    "num_nextn_predict_layers",
    "num_mtp_layers",  // layers that predict further tokens are not part of the model
};

constexpr std::string_view kMistral4Idle[] = {
    "head_dim",
    "qk_head_dim",              // transformers computes them
    "max_position_embeddings",  // in rope_parameters: transformers does not read it there
};

Result<ModelSpec> read_mistral4(const KeyReader& config) {
  FamilyKeys keys = keys_of_mixture(/*expert_size=*/2048, /*max_positions=*/1048576);
  constexpr LatentKeys kLatent{1024, 256, 64, 128};
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "mistral4", keys));
  LOCKSTEP_TRY(const int64_t plain_dim, config.integer_or("qk_nope_head_dim", kLatent.plain_dim, kWidth));
  LOCKSTEP_TRY_VOID(read_mistral4_rope(config, plain_dim, spec));
  LOCKSTEP_TRY_VOID(read_pairs(config, spec));
  LOCKSTEP_TRY_VOID(read_latent_attention(config, kLatent, spec));
  LOCKSTEP_TRY_VOID(read_experts(config, 128, 4, spec));
  LOCKSTEP_TRY_VOID(read_grouped_router(config, {}, /*sum_to_one=*/true, /*scale=*/1.0, spec));
  spec.router.scores = RouterSpec::Scores::kSoftmax;
  spec.router.has_bias = false;
  LOCKSTEP_TRY_VOID(read_first_dense_layers(config, 0, {"intermediate_size", 12288}, spec));
  LOCKSTEP_TRY_VOID(read_shared_expert(config, {"n_shared_experts", 1}, kExperts.least, spec));
  return spec;
}

constexpr ModelType kLatentTypes[] = {
    {"deepseek_v2", "DeepseekV2ForCausalLM", read_deepseek_v2, kDeepseekV2Idle},
    {"deepseek_v3", "DeepseekV3ForCausalLM", read_deepseek_v3, kDeepseekV3Idle},
    {"glm4_moe_lite", "Glm4MoeLiteForCausalLM", read_glm4_moe_lite, kDeepseekV3Idle},
    {"mistral4", "Mistral4ForCausalLM", read_mistral4, kMistral4Idle},
};

}  // namespace

Result<ModelSpec> read_mistral4_part(const KeyReader& config) {
  return read_text_part(config, /*tied=*/true, read_mistral4, kMistral4Idle);
}

std::span<const ModelType> latent_types() { return kLatentTypes; }

}  // namespace lockstep::checkpoint
