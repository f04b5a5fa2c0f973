#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

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
    LOCKSTEP_TRY(spec.rope.original_max_positions, read_original_maximum(config, *spec.rope.original_max_positions));
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
  LOCKSTEP_TRY(const auto window, read_window(config, 4096, slides));
  slide_everywhere(window, spec);
  LOCKSTEP_TRY(spec.router.sum_to_one, config.boolean_or("norm_topk_prob", false));
  LOCKSTEP_TRY_VOID(read_experts(config, 128, 8, spec));
  LOCKSTEP_TRY_VOID(read_sparse_layers(config, 6144, spec));
  return spec;
}

constexpr std::string_view kQwen3MoeIdle[] = {
    "max_window_layers",  // transformers gives all layers the window
};

Result<ModelSpec> read_qwen2_moe(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 16;
  keys.intermediate_size = {"moe_intermediate_size", 1408};
  keys.max_positions.otherwise = 32768;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "qwen2_moe", keys));
  LOCKSTEP_TRY(spec.attention_bias, config.boolean_or("qkv_bias", true));  // not on the output
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY(const bool slides, config.boolean_or("use_sliding_window", false));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096, slides));
  LOCKSTEP_TRY(const int64_t most, config.integer_or("max_window_layers", 28, {0, kPositions.most}));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [&](int64_t layer) { return window && layer % 2 == 0 && layer < most; }, spec));
  LOCKSTEP_TRY(spec.router.sum_to_one, config.boolean_or("norm_topk_prob", false));
  LOCKSTEP_TRY_VOID(read_experts(config, 60, 4, spec));
  LOCKSTEP_TRY_VOID(read_sparse_layers(config, 5632, spec));
  LOCKSTEP_TRY(spec.shared_expert_size, config.integer_or("shared_expert_intermediate_size", 5632, kWidth));
  spec.shared_expert_gate = true;
  return spec;
}

// ---- Sigmoid or softmax scores, a bias that only chooses, groups of experts ----

constexpr double kLeastSum = 1e-20;  // transformers adds it to the sum of the scores

Result<ModelSpec> read_glm4_moe(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 8;
  keys.intermediate_size = {"moe_intermediate_size", 1408};
  keys.max_positions.otherwise = 131072;
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "glm4_moe", keys));
  LOCKSTEP_TRY(spec.attention_bias, config.boolean_or("attention_bias", false));  // not on the output
  LOCKSTEP_TRY(spec.query_key_norm, config.boolean_or("use_qk_norm", false));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.rotated = {"partial_rotary_factor", 0.5}, .partial = true}));
  LOCKSTEP_TRY_VOID(read_experts(config, 128, 8, spec));
  LOCKSTEP_TRY_VOID(read_grouped_router(config, {}, /*sum_to_one=*/true, /*scale=*/1.0, spec));
  LOCKSTEP_TRY_VOID(read_first_dense_layers(config, 1, {"intermediate_size", 10944}, spec));
  LOCKSTEP_TRY_VOID(read_shared_expert(config, {"n_shared_experts", 1}, kExperts.least, spec));
  return spec;
}

/// Layers that predict further tokens are not part of the model.
constexpr std::string_view kGlm4MoeIdle[] = {"num_nextn_predict_layers", "num_mtp_layers"};

Result<ModelSpec> read_ernie4_5_moe(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 4;
  keys.intermediate_size = {"moe_intermediate_size", 1536};
  keys.max_positions.otherwise = 131072;
  keys.norm_epsilon.otherwise = 1e-5;
  keys.tied_embeddings = true;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "ernie4_5_moe", keys));
  LOCKSTEP_TRY_VOID(require_switch(config, "use_bias", false));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.theta = {"rope_theta", 500000.0}}));
  spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  LOCKSTEP_TRY_VOID(read_experts(config, 64, 6, spec));
  spec.router.has_bias = true;
  LOCKSTEP_TRY(spec.router.least_sum, config.number_or("moe_norm_min", 1e-12, {0.0, 1.0}));
  LOCKSTEP_TRY_VOID(read_shared_expert(config, {"moe_num_shared_experts", 2}, 0, spec));
  LOCKSTEP_TRY(const int64_t first, config.integer_or("moe_layer_start_index", 1, {0, kPositions.most}));
  LOCKSTEP_TRY(int64_t last, config.integer_or("moe_layer_end_index", -1, {-1, kPositions.most}));
  if (last == -1) last = spec.layers - 1;
  LOCKSTEP_TRY(const int64_t interval, config.integer_or("moe_layer_interval", 1, kWidth));
  LOCKSTEP_TRY_VOID(read_dense_layers(
      config, [=](int64_t layer) { return (layer + 1) % interval != 0 || layer < first || layer > last; },
      {"intermediate_size", 12288}, spec));
  return spec;
}

constexpr std::string_view kErnie45MoeIdle[] = {
    "num_nextn_predict_layers",  // transformers leaves these layers out
    "moe_gate_act",              // transformers has one form
    "moe_capacity",              // of training; transformers drops no token
    "moe_gate",                  // transformers has one kind,
    "moe_use_aux_free",          // and always adds the bias
    "use_rmsnorm",
};

Result<ModelSpec> read_minimax_m2(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 8;
  keys.head_dim.otherwise = 128;
  keys.max_positions.otherwise = 196608;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "minimax_m2", keys));
  spec.query_key_norm = spec.norm_across_heads = true;
  LOCKSTEP_TRY(const int64_t rotated, config.integer_or("rotary_dim", spec.head_dim, {2, spec.head_dim}));
  const double part = static_cast<double>(rotated) / static_cast<double>(spec.head_dim);
  LOCKSTEP_TRY(
      spec.rope,
      read_rope(config, spec,
                {.theta = {"rope_theta", 5000000.0}, .rotated = {"partial_rotary_factor", part}, .partial = true}));
  LOCKSTEP_TRY_VOID(read_experts(config, 256, 8, spec));
  spec.router.scores = RouterSpec::Scores::kSigmoid;
  spec.router.has_bias = true;
  return spec;
}

constexpr std::string_view kMiniMaxM2Idle[] = {
    "router_jitter_noise",  // of training
    // transformers' model has one form of what these choose
    "scoring_func", "use_routing_bias", "use_qk_norm", "qk_norm_type", "attn_type_list", "shared_intermediate_size",
    "shared_moe_mode", "sliding_window", "max_model_len",
    // further tokens at once
    "use_mtp", "num_mtp_modules", "mtp_transformer_layers",
    // multipliers of MiniMax-01's norms
    "layernorm_full_attention_alpha", "layernorm_full_attention_beta", "layernorm_linear_attention_alpha",
    "layernorm_linear_attention_beta", "layernorm_mlp_alpha", "layernorm_mlp_beta"};

Result<ModelSpec> read_dots1(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 32;
  keys.intermediate_size = {"moe_intermediate_size", 1408};
  keys.max_positions.otherwise = 2048;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "dots1", keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  spec.query_key_norm = true;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  LOCKSTEP_TRY(const int64_t first, config.integer_or("max_window_layers", 62, {0, kPositions.most}));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [&](int64_t layer) { return window && layer >= first; }, spec));
  LOCKSTEP_TRY_VOID(read_experts(config, 128, 6, spec));
  LOCKSTEP_TRY_VOID(read_grouped_router(config, {}, /*sum_to_one=*/false, /*scale=*/1.0, spec));
  LOCKSTEP_TRY_VOID(read_first_dense_layers(config, 0, {"intermediate_size", 10944}, spec));
  LOCKSTEP_TRY_VOID(read_shared_expert(config, {"n_shared_experts"}, kExperts.least, spec));
  return spec;
}

constexpr std::string_view kDots1Idle[] = {
    "scoring_func", "topk_method", "moe_layer_freq",  // transformers' model has one form of what these choose
    "use_sliding_window",                             // transformers does not read it
};

Result<ModelSpec> read_exaone_moe(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 32;
  keys.intermediate_size = {"moe_intermediate_size", 1024};
  keys.max_positions.otherwise = 2048;
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "exaone_moe", keys));
  spec.query_key_norm = true;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY_VOID(read_exaone_windows(config, spec));
  LOCKSTEP_TRY_VOID(read_experts(config, 64, 8, spec));
  LOCKSTEP_TRY_VOID(read_grouped_router(config, {}, /*sum_to_one=*/true, /*scale=*/2.5, spec));
  LOCKSTEP_TRY_VOID(read_first_dense_layers(config, 1, {"intermediate_size", 16384}, spec));
  LOCKSTEP_TRY_VOID(read_shared_expert(config, {"num_shared_experts", 1}, kExperts.least, spec));
  return spec;
}

constexpr std::string_view kExaoneMoeIdle[] = {
    "sliding_window_pattern",  // read where layer_types is absent
    "scoring_func",
    "topk_method",  // transformers' model has one form of what these choose
    "tokenizer_class",
    "is_moe_layer",
    "first_last_k_dense_replace",  // transformers reads mlp_layer_types and first_k_dense_replace
    "num_nextn_predict_layers",    // transformers leaves these layers out
};

Result<ModelSpec> read_hy_v3(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 8;
  keys.head_dim.otherwise = 128;
  keys.intermediate_size = {"moe_intermediate_size", 1536};
  keys.max_positions.otherwise = 131072;
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "hy_v3", keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LOCKSTEP_TRY_VOID(require_switch(config, "mlp_bias", false));
  spec.query_key_norm = true;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.theta = {"rope_theta", 11158840.0}}));
  LOCKSTEP_TRY_VOID(read_experts(config, 192, 8, spec));
  spec.router.scores = RouterSpec::Scores::kSigmoid;
  spec.router.has_bias = true;
  spec.router.least_sum = kLeastSum;
  LOCKSTEP_TRY(spec.router.scale, config.number_or("router_scaling_factor", 2.826, kPositive));
  LOCKSTEP_TRY_VOID(read_first_dense_layers(config, 1, {"intermediate_size", 13312}, spec));
  LOCKSTEP_TRY_VOID(read_shared_expert(config, {"num_shared_experts", 1}, kExperts.least, spec));
  return spec;
}

constexpr std::string_view kHyV3Idle[] = {
    "enable_moe_fp32_combine",   // the same sum: two numbers of one type are added exactly and rounded once
    "num_nextn_predict_layers",  // transformers leaves these layers out
};

// Experts have their own function; older names of other keys.
constexpr std::string_view kGptOssIdle[] = {"hidden_act", "experts_per_token", "initial_context_length"};
constexpr std::string_view kMixtralIdle[] = {"router_jitter_noise"};  // training

constexpr ModelType kExpertTypes[] = {
    {"dots1", "Dots1ForCausalLM", read_dots1, kDots1Idle},
    {"ernie4_5_moe", "Ernie4_5_MoeForCausalLM", read_ernie4_5_moe, kErnie45MoeIdle},
    {"exaone_moe", "ExaoneMoeForCausalLM", read_exaone_moe, kExaoneMoeIdle},
    {"glm4_moe", "Glm4MoeForCausalLM", read_glm4_moe, kGlm4MoeIdle},
    {"gpt_oss", "GptOssForCausalLM", read_gpt_oss, kGptOssIdle},
    {"hy_v3", "HYV3ForCausalLM", read_hy_v3, kHyV3Idle},
    {"minimax_m2", "MiniMaxM2ForCausalLM", read_minimax_m2, kMiniMaxM2Idle},
    {"mixtral", "MixtralForCausalLM", read_mixtral, kMixtralIdle},
    {"qwen2_moe", "Qwen2MoeForCausalLM", read_qwen2_moe},
    {"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe, kQwen3MoeIdle},
};

}  // namespace

Result<void> read_first_dense_layers(const KeyReader& config, int64_t default_first, Key<int64_t> size,
                                     ModelSpec& spec) {
  LOCKSTEP_TRY(const int64_t first, config.integer_or("first_k_dense_replace", default_first, {0, kPositions.most}));
  LOCKSTEP_TRY(const std::vector<size_t> kinds,
               read_layer_kinds(config, "mlp_layer_types", spec.layers, {"dense", "sparse"}));
  const auto is_dense = [&](int64_t layer) {
    return kinds.empty() ? layer < first : kinds[static_cast<size_t>(layer)] == 0;
  };
  return read_dense_layers(config, is_dense, size, spec);
}

Result<void> read_shared_expert(const KeyReader& config, Key<int64_t> key, int64_t least, ModelSpec& spec) {
  const Limits<int64_t> limits{least, kExperts.most};
  LOCKSTEP_TRY(const int64_t count,
               key.otherwise ? config.integer_or(key.name, *key.otherwise, limits) : config.integer(key.name, limits));
  spec.shared_expert_size = count * spec.intermediate_size;
  return ok();
}

Result<void> read_grouped_router(const KeyReader& config, DefaultGroups groups, bool sum_to_one, double scale,
                                 ModelSpec& spec) {
  RouterSpec& router = spec.router;
  router.scores = RouterSpec::Scores::kSigmoid;
  router.has_bias = true;
  LOCKSTEP_TRY(router.sum_to_one, config.boolean_or("norm_topk_prob", sum_to_one));
  if (router.sum_to_one) router.least_sum = kLeastSum;
  LOCKSTEP_TRY(router.scale, config.number_or("routed_scaling_factor", scale, kPositive));
  return read_groups(config, groups, RouterSpec::GroupScore::kBestTwo, spec);
}

Result<void> read_groups(const KeyReader& config, DefaultGroups otherwise, RouterSpec::GroupScore score,
                         ModelSpec& spec) {
  RouterSpec& router = spec.router;
  LOCKSTEP_TRY(router.groups, config.integer_or("n_group", otherwise.groups, kExperts));
  LOCKSTEP_TRY(router.kept_groups, config.integer_or("topk_group", otherwise.kept, kExperts));
  router.group_score = score;
  const int64_t size = spec.experts / router.groups;
  if (spec.experts % router.groups != 0 || (router.groups > 1 && size < 2)) {
    return config.wrong("n_group", fmt::format("a divisor of the {} experts into groups of two or more", spec.experts));
  }
  if (router.kept_groups <= router.groups && router.kept_groups * size >= spec.experts_per_token) return ok();
  return config.wrong("topk_group", fmt::format("groups of the {} that hold the {} experts of a token", router.groups,
                                                spec.experts_per_token));
}

Result<void> read_sparse_layers(const KeyReader& config, int64_t default_size, ModelSpec& spec) {
  LOCKSTEP_TRY(const int64_t step, config.integer_or("decoder_sparse_step", 1, kWidth));
  const auto* list = config.find("mlp_only_layers");
  if (list != nullptr && !list->is_array()) return config.wrong("mlp_only_layers", "an array of layers");
  const auto is_dense = [&](int64_t layer) {
    const bool is_listed = list != nullptr && std::find(list->begin(), list->end(), layer) != list->end();
    return is_listed || (layer + 1) % step != 0;
  };
  return read_dense_layers(config, is_dense, {"intermediate_size", default_size}, spec);
}

Result<void> read_dense_layers(const KeyReader& config, const std::function<bool(int64_t)>& is_dense, Key<int64_t> size,
                               ModelSpec& spec) {
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (is_dense(layer)) spec.dense_layers.push_back(layer);
  }
  LOCKSTEP_TRY(const int64_t columns, config.integer_or(size.name, *size.otherwise, kWidth));
  if (!spec.dense_layers.empty()) spec.dense_size = columns;
  if (spec.expert_layers() > 0) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[runtime/checkpoint] cannot use {}: found no layer with experts among {}, expected one or "
                           "more; correct the file",
                           config.origin(), spec.layers)};
}

/// The number of experts has several names: transformers', that of GLM and DeepSeek, and ERNIE's. A file may have some
/// of them; they then agree.
Result<int64_t> read_expert_count(const KeyReader& config, int64_t otherwise) {
  std::string_view first;
  int64_t count = otherwise;
  for (const std::string_view name : {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}) {
    if (!config.has(name)) continue;
    LOCKSTEP_TRY(const int64_t found, config.integer(name, kExperts));
    if (!first.empty() && found != count) return config.wrong(name, fmt::format("{}, as {}", count, first));
    if (first.empty()) first = name;
    count = found;
  }
  return count;
}

Result<void> read_experts(const KeyReader& config, int64_t default_experts, int64_t default_chosen, ModelSpec& spec) {
  if (spec.activation.ends_with("relu")) {
    return unsupported(config, "hidden_act", fmt::format("\"{}\"", spec.activation), "silu or a gelu");
  }
  spec.mlp = Mlp::kExperts;
  LOCKSTEP_TRY(spec.experts, read_expert_count(config, default_experts));
  // The names of transformers, ERNIE and Gemma.
  const std::string_view chosen = either(config, "num_experts_per_tok", either(config, "moe_k", "top_k_experts"));
  LOCKSTEP_TRY(spec.experts_per_token, config.integer_or(chosen, default_chosen, kExperts));
  if (spec.experts_per_token > spec.experts) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/checkpoint] cannot use {}: {}: found {}, expected 1 to {}, the experts; correct "
                             "the file",
                             config.origin(), chosen, spec.experts_per_token, spec.experts)};
  }
  return ok();
}

std::span<const ModelType> expert_types() { return kExpertTypes; }

}  // namespace lockstep::checkpoint
