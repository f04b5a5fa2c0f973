// Variants of Llama, each with a deviation of its own.
#include <fmt/format.h>

#include <cmath>

#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

// ---- SmolLM3: layers without rotation ----

Result<ModelSpec> read_smollm3(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 4;
  keys.max_positions.otherwise = 32768;
  keys.tied_embeddings = true;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "smollm3", keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LOCKSTEP_TRY(spec.mlp_bias, config.boolean_or("mlp_bias", false));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.theta = {"rope_theta", 2e6}}));
  LOCKSTEP_TRY_VOID(read_no_rope_layers(config, spec));
  LOCKSTEP_TRY(const bool in_use, config.boolean_or("use_sliding_window", false));
  LOCKSTEP_TRY(const auto window, read_window(config, std::nullopt));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [&](int64_t layer) { return in_use && window && !spec.has_rope(layer); }, spec));
  return spec;
}

constexpr std::string_view kSmolLm3Idle[] = {"max_window_layers"};  // transformers does not read it

// ---- Granite: multipliers ----

/// What dense Granite and its mixtures have in common.
Result<ModelSpec> read_any_granite(const KeyReader& config, std::string_view model_type) {
  FamilyKeys keys;
  keys.max_positions.otherwise = 2048;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, model_type, keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY(spec.embedding_scale, config.number_or("embedding_multiplier", 1.0, kPositive));
  LOCKSTEP_TRY(spec.attention_scale, config.number_or("attention_multiplier", 1.0, kPositive));
  LOCKSTEP_TRY(spec.residual_scale, config.number_or("residual_multiplier", 1.0, kPositive));
  LOCKSTEP_TRY(const double divisor, config.number_or("logits_scaling", 1.0, kPositive));
  spec.logit_scale = 1.0 / divisor;
  return spec;
}

Result<ModelSpec> read_granite(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_any_granite(config, "granite"));
  LOCKSTEP_TRY(spec.mlp_bias, config.boolean_or("mlp_bias", false));
  return spec;
}

Result<ModelSpec> read_granitemoe(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_any_granite(config, "granitemoe"));
  LOCKSTEP_TRY_VOID(read_experts(config, 8, 2, spec));
  return spec;
}

// ---- StarCoder2: LayerNorm and a plain MLP ----

Result<ModelSpec> read_starcoder2(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 2;
  keys.max_positions.otherwise = 4096;
  keys.norm_epsilon = {"norm_epsilon", 1e-5};
  keys.activation.otherwise = "gelu_pytorch_tanh";
  keys.tied_embeddings = true;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "starcoder2", keys));
  spec.mlp = Mlp::kPlain;
  LOCKSTEP_TRY(const bool has_biases, config.boolean_or("use_bias", true));
  spec.attention_bias = spec.attention_output_bias = spec.mlp_bias = has_biases;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY(const auto window, read_window(config, std::nullopt));
  slide_everywhere(window, spec);
  return spec;
}

constexpr std::string_view kStarcoder2Idle[] = {
    "mlp_type",
    "norm_type",  // always a plain MLP and LayerNorm in transformers
    // of the code before transformers', which has one way of attention; older names beside hidden_act and norm_epsilon
    "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32",
    "scale_attn_weights",
    "activation_function",
    "layer_norm_epsilon",
};

// ---- StableLM: LayerNorm, a part of each head turns ----

Result<ModelSpec> read_stablelm(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 32;
  keys.head_dim = {""};
  keys.max_positions.otherwise = 4096;
  keys.norm_epsilon = {"layer_norm_eps", 1e-5};
  LOCKSTEP_TRY_VOID(require_switch(config, "qk_layernorm", false));
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "stablelm", keys));
  LOCKSTEP_TRY(spec.attention_bias, config.boolean_or("use_qkv_bias", false));  // not on the output
  LOCKSTEP_TRY(spec.parallel_residual, config.boolean_or("use_parallel_residual", false));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.rotated = {"partial_rotary_factor", 0.25}, .partial = true}));
  return spec;
}

constexpr std::string_view kStableLmIdle[] = {
    "norm_eps", "rope_pct", "rotary_scaling_factor",  // of the code before transformers', which does not read them
};

// ---- Seed-OSS: biases on q, k and v only, wide heads ----

Result<ModelSpec> read_seed_oss(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 8;
  keys.head_dim.otherwise = 128;
  keys.max_positions.otherwise = 524288;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "seed_oss", keys));
  LOCKSTEP_TRY(spec.attention_bias, config.boolean_or("attention_bias", true));
  LOCKSTEP_TRY(spec.attention_output_bias, config.boolean_or("attention_out_bias", false));
  LOCKSTEP_TRY(spec.mlp_bias, config.boolean_or("mlp_bias", false));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  return spec;
}

// ---- ERNIE 4.5: neighbouring elements turn ----

Result<ModelSpec> read_ernie4_5(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 2;
  keys.head_dim.otherwise = 128;
  keys.max_positions.otherwise = 131072;
  keys.norm_epsilon.otherwise = 1e-5;
  keys.tied_embeddings = true;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "ernie4_5", keys));
  LOCKSTEP_TRY(const bool has_biases, config.boolean_or("use_bias", false));
  spec.attention_bias = spec.attention_output_bias = spec.mlp_bias = has_biases;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.theta = {"rope_theta", 500000.0}}));
  spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  return spec;
}

// ---- GLM-4: norms on both sides of a block, half of each head turns ----

Result<ModelSpec> read_glm4(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 2;
  keys.head_dim.otherwise = 128;
  keys.max_positions.otherwise = 131072;
  keys.norm_epsilon.otherwise = 1.5625e-7;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "glm4", keys));
  LOCKSTEP_TRY(spec.attention_bias, config.boolean_or("attention_bias", true));  // not on the output
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.rotated = {"partial_rotary_factor", 0.5}, .partial = true}));
  spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  return spec;
}

// ---- EXAONE 4: norms after the blocks; beside layers with a window, those without do not turn ----

Result<ModelSpec> read_exaone4(const KeyReader& config) {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 32;
  keys.max_positions.otherwise = 2048;
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "exaone4", keys));
  spec.query_key_norm = true;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY_VOID(read_exaone_windows(config, spec));
  return spec;
}

constexpr std::string_view kExaone4Idle[] = {"sliding_window_pattern"};  // read where layer_types is absent

// ---- Hunyuan: heads are normed after they turn ----

/// The common notation of the rope object: a "dynamic" one with a fixed `alpha` only stretches theta.
Result<json> without_alpha(const KeyReader& config, const json& rope, int64_t head_dim) {
  const json type = rope.contains("rope_type") ? rope["rope_type"] : rope.value("type", json());
  if (type != "dynamic" || rope.value("alpha", json()) == 0) return rope;
  const KeyReader reader(rope, fmt::format("{}: rope", config.origin()));
  LOCKSTEP_TRY(const double alpha, reader.number("alpha", kPositive));
  LOCKSTEP_TRY(const double beside, config.number_or("rope_theta", 10000.0, kPositive));
  LOCKSTEP_TRY(const double theta, reader.number_or("rope_theta", beside, kPositive));
  const auto width = static_cast<double>(head_dim);
  return json{{"rope_type", "default"}, {"rope_theta", theta * std::pow(alpha, width / (width - 2.0))}};
}

Result<ModelSpec> read_hunyuan_v1_dense(const KeyReader& config) {
  FamilyKeys keys;
  keys.max_positions.otherwise = 2048;
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "hunyuan_v1_dense", keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  spec.query_key_norm = spec.norm_after_rope = true;
  json ropes = json::object();
  for (const char* const key : {"rope_theta", "rope_scaling", "rope_parameters"}) {
    if (const json* value = config.find(key)) ropes[key] = *value;
  }
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    if (ropes.contains(key) && ropes[key].is_object()) {
      LOCKSTEP_TRY(ropes[key], without_alpha(config, ropes[key], spec.head_dim));
    }
  }
  LOCKSTEP_TRY(spec.rope, read_rope(KeyReader(ropes, config.origin()), spec, {}));
  return spec;
}

constexpr std::string_view kHunYuanIdle[] = {
    // of the code before transformers', which does not read them
    "add_classification_head",
    "attention_head_dim",
    "cla_share_factor",
    "class_num",
    "dense_list",
    "mask_init_id",
    "enable_lm_head_fp32",
    "mlp_bias",
    "norm_type",
    "org_vocab_size",
    "pool_type",
    "use_cla",
    "use_qk_norm",
    "use_rotary_pos_emb",
    "use_mla",
    // token ids of the chat template and of other tasks
    "eod_token_id",
    "im_end_id",
    "im_newline_id",
    "im_start_id",
    "pad_id",
    "sep_token_id",
    "text_end_id",
    "text_start_id",
};

// ---- OLMo 2 and 3, OLMoE: queries and keys are normed across all heads ----

/// What all of them have in common; no rotary embedding.
Result<ModelSpec> read_any_olmo(const KeyReader& config, std::string_view model_type, FamilyKeys keys) {
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, model_type, keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  spec.query_key_norm = spec.norm_across_heads = true;
  return spec;
}

Result<ModelSpec> read_olmo2(const KeyReader& config) {
  FamilyKeys keys;
  keys.max_positions.otherwise = 2048;
  LOCKSTEP_TRY(ModelSpec spec, read_any_olmo(config, "olmo2", keys));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  return spec;
}

/// Each kind of layers has a rope; `rope_scaling` and `rope_theta` belong to that of layers without a window.
Result<void> read_olmo3_ropes(const KeyReader& config, ModelSpec& spec) {
  constexpr double kTheta = 500000.0;
  LOCKSTEP_TRY(const auto nested, config.object("rope_parameters"));
  if (nested && !nested->has("full_attention") && !nested->has("sliding_attention")) {
    return unsupported(config, "rope_parameters", "one object", "one for \"full_attention\" or \"sliding_attention\"");
  }
  LOCKSTEP_TRY(const auto scaling, config.object("rope_scaling"));
  LOCKSTEP_TRY(spec.rope, read_layer_rope(config, spec, "full_attention",
                                          scaling ? config.find("rope_scaling") : nullptr, {"rope_theta", kTheta}));
  LOCKSTEP_TRY(const RopeSpec local, read_layer_rope(config, spec, "sliding_attention", nullptr, {"", kTheta}));
  if (local != spec.rope) spec.local_rope = local;
  return ok();
}

Result<ModelSpec> read_olmo3(const KeyReader& config) {
  FamilyKeys keys;
  keys.max_positions.otherwise = 2048;
  LOCKSTEP_TRY(ModelSpec spec, read_any_olmo(config, "olmo3", keys));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [](int64_t layer) { return (layer + 1) % 4 != 0; }, spec));
  LOCKSTEP_TRY_VOID(read_olmo3_ropes(config, spec));
  return spec;
}

constexpr std::string_view kOlmo3Idle[] = {"full_attention", "sliding_attention"};  // ropes in rope_parameters

Result<ModelSpec> read_olmoe(const KeyReader& config) {
  FamilyKeys keys;
  keys.head_dim = {""};
  keys.max_positions.otherwise = 4096;
  LOCKSTEP_TRY(ModelSpec spec, read_any_olmo(config, "olmoe", keys));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  if (const auto* clip = config.find("clip_qkv")) return unsupported(config, "clip_qkv", describe(*clip), "null");
  LOCKSTEP_TRY(spec.router.sum_to_one, config.boolean_or("norm_topk_prob", false));
  LOCKSTEP_TRY_VOID(read_experts(config, 64, 8, spec));
  return spec;
}

constexpr ModelType kDenseTypes[] = {
    {"ernie4_5", "Ernie4_5ForCausalLM", read_ernie4_5},
    {"exaone4", "Exaone4ForCausalLM", read_exaone4, kExaone4Idle},
    {"glm4", "Glm4ForCausalLM", read_glm4},
    {"granite", "GraniteForCausalLM", read_granite},
    {"granitemoe", "GraniteMoeForCausalLM", read_granitemoe},
    {"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", read_hunyuan_v1_dense, kHunYuanIdle},
    {"olmo2", "Olmo2ForCausalLM", read_olmo2},
    {"olmo3", "Olmo3ForCausalLM", read_olmo3, kOlmo3Idle},
    {"olmoe", "OlmoeForCausalLM", read_olmoe},
    {"seed_oss", "SeedOssForCausalLM", read_seed_oss},
    {"smollm3", "SmolLM3ForCausalLM", read_smollm3, kSmolLm3Idle},
    {"stablelm", "StableLmForCausalLM", read_stablelm, kStableLmIdle},
    {"starcoder2", "Starcoder2ForCausalLM", read_starcoder2, kStarcoder2Idle},
};

}  // namespace

std::span<const ModelType> dense_types() { return kDenseTypes; }

}  // namespace lockstep::checkpoint
