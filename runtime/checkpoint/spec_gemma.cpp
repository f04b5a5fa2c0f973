#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

FamilyKeys gemma_keys() {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 4;
  keys.head_dim.otherwise = 256;
  keys.max_positions.otherwise = 8192;
  keys.activation = {"hidden_activation", "gelu_pytorch_tanh"};
  keys.tied_embeddings = true;
  return keys;
}

/// Gemma 3 has defaults for its sizes, and the text part of a larger config holds only deviations from them.
FamilyKeys gemma3_keys() {
  FamilyKeys keys = gemma_keys();
  keys.hidden_size.otherwise = 2304;
  keys.layers.otherwise = 26;
  keys.query_heads.otherwise = 8;
  keys.intermediate_size.otherwise = 9216;
  keys.vocabulary.otherwise = 262208;
  keys.max_positions.otherwise = 131072;
  return keys;
}

/// A cap on logits: `otherwise` if absent; 0 (no cap) if null.
Result<double> read_soft_cap(const KeyReader& config, std::string_view key, double otherwise) {
  if (config.is_null(key)) return 0.0;
  return config.number_or(key, otherwise, kPositive);
}

/// Reads what all Gemmas have beyond the common keys.
Result<ModelSpec> read_gemma(const KeyReader& config, std::string_view model_type, const FamilyKeys& keys) {
  LOCKSTEP_TRY_VOID(require_switch(config, "use_bidirectional_attention", false));
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, model_type, keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LOCKSTEP_TRY(const double scalar, config.number_or("query_pre_attn_scalar", 256.0, kPositive));
  spec.attention_scale = 1.0 / std::sqrt(scalar);
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
  return spec;
}

Result<ModelSpec> read_gemma2(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_gemma(config, "gemma2", gemma_keys()));
  LOCKSTEP_TRY(spec.attention_soft_cap, read_soft_cap(config, "attn_logit_softcapping", 50.0));
  LOCKSTEP_TRY(spec.logit_soft_cap, read_soft_cap(config, "final_logit_softcapping", 30.0));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [](int64_t layer) { return layer % 2 == 0; }, spec));
  return spec;
}

/// The ropes of layers with and without a window.
Result<void> read_gemma3_ropes(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(const auto scaling, config.object("rope_scaling"));
  LOCKSTEP_TRY(spec.rope, read_layer_rope(config, spec, "full_attention",
                                          scaling ? config.find("rope_scaling") : nullptr, {"rope_theta", 1e6}));
  LOCKSTEP_TRY(const RopeSpec local,
               read_layer_rope(config, spec, "sliding_attention", nullptr, {"rope_local_base_freq", 10000.0}));
  if (local != spec.rope) spec.local_rope = local;
  return ok();
}

Result<ModelSpec> read_gemma3_text(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_gemma(config, "gemma3_text", gemma3_keys()));
  LOCKSTEP_TRY(spec.logit_soft_cap, read_soft_cap(config, "final_logit_softcapping", 0.0));
  spec.query_key_norm = true;
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  LOCKSTEP_TRY(const int64_t pattern, config.integer_or("sliding_window_pattern", 6, kWidth));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [pattern](int64_t layer) { return (layer + 1) % pattern != 0; }, spec));
  LOCKSTEP_TRY_VOID(read_gemma3_ropes(config, spec));
  return spec;
}

/// Of Gemma 2 and 3.
constexpr std::string_view kGemma2Idle[] = {
    "full_attention",  // the ropes inside rope_parameters, which the reader takes apart
    "sliding_attention",
    "sliding_window_pattern",  // read where layer_types is absent
    "_sliding_window_pattern",
    "hidden_act",              // beside hidden_activation
    "attn_logit_softcapping",  // transformers reads it in Gemma 2 alone
};

/// Beside the text part.
constexpr std::string_view kGemma3ImageIdle[] = {
    "vision_config",     "mm_tokens_per_image", "boi_token_index", "eoi_token_index",
    "image_token_index", "boi_token_id",        "eoi_token_id",    "image_token_id",
};

Result<ModelSpec> read_gemma3(const KeyReader& config) {
  return read_text_part(config, /*tied=*/true, read_gemma3_text, kGemma2Idle);
}

// ---- Gemma 4 ----

/// What differs between the text parts of Gemma 4 and of its version without towers.
struct Gemma4Defaults {
  int64_t max_positions, window, layer_input_size;
};
constexpr Gemma4Defaults kGemma4{131072, 512, 256};
constexpr Gemma4Defaults kGemma4Unified{262144, 1024, 0};

constexpr std::string_view kGemma4Idle[] = {
    // the ropes inside rope_parameters, which the reader takes apart
    "full_attention",
    "sliding_attention",
    // of experts, where there are none
    "num_experts",
    "top_k_experts",
    "moe_intermediate_size",
};

/// Beside the text part.
constexpr std::string_view kGemma4ImageIdle[] = {
    "vision_config",
    "audio_config",
    "boi_token_id",
    "eoi_token_id",
    "image_token_id",
    "boa_token_id",
    "video_token_id",
    "eoa_token_index",
    "eoa_token_id",
    "audio_token_id",
    "vision_soft_tokens_per_image",
};

/// The heads of the layers without a window: in `per_layer_config`, as transformers saves them, or in separate keys.
Result<HeadShape> read_global_heads(const KeyReader& config, const ModelSpec& spec) {
  HeadShape heads = spec.usual_heads();
  LOCKSTEP_TRY(heads.keys_are_values, config.boolean_or("attention_k_eq_v", false));
  LOCKSTEP_TRY(const auto layers, config.object("per_layer_config"));
  LOCKSTEP_TRY(const int64_t own_size, config.integer_or("global_head_dim", 512, kWidth));
  LOCKSTEP_TRY(const int64_t own_heads, config.integer_or("num_global_key_value_heads", spec.key_value_heads, kWidth));
  if (config.is_null("per_layer_config")) return heads;  // all layers are alike
  if (!layers) {
    heads.head_dim = own_size;
    if (heads.keys_are_values) heads.key_value_heads = own_heads;
    return heads;
  }
  const json& all = *config.find("per_layer_config");
  const size_t digits = std::to_string(spec.layers - 1).size();  // transformers writes numbers of one width: 05
  json first;
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const std::string name = std::to_string(layer);
    const auto padded = all.find(fmt::format("{:0>{}}", name, digits)), plain = all.find(name);
    const json of_layer = padded != all.end() ? *padded : plain != all.end() ? *plain : json::object();
    if (spec.window(layer) == 0 && first.is_null()) first = of_layer;
    if (of_layer == (spec.window(layer) == 0 ? first : json::object())) continue;
    return unsupported(config, "per_layer_config", fmt::format("{} of layer {}", of_layer.dump(), layer),
                       "the same for all layers without a window, and nothing for the others");
  }
  const KeyReader keys(first, config.origin() + ": per_layer_config");
  LOCKSTEP_TRY(heads.head_dim, keys.integer_or("head_dim", spec.head_dim, kWidth));
  LOCKSTEP_TRY(heads.key_value_heads, keys.integer_or("num_key_value_heads", spec.key_value_heads, kWidth));
  for (const auto& [key, value] : first.items()) {
    if (key == "head_dim" || key == "num_key_value_heads") continue;
    return unsupported(keys, key, describe(value), "head_dim and num_key_value_heads");
  }
  return heads;
}

/// Reads which layers share keys and values; the spec's windows are already set.
Result<void> read_shared_caches(const KeyReader& config, int64_t otherwise, ModelSpec& spec) {
  LOCKSTEP_TRY(spec.layers_sharing_cache, config.integer_or("num_kv_shared_layers", otherwise, {0, spec.layers - 1}));
  if (spec.layers_sharing_cache >= spec.layers) {
    return config.wrong("num_kv_shared_layers", fmt::format("0 to {} (missing means {})", spec.layers - 1, otherwise));
  }
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if ((spec.window(spec.cache_layer(layer)) > 0) == (spec.window(layer) > 0)) continue;
    return config.wrong("num_kv_shared_layers",
                        fmt::format("a layer like layer {} among those that do not share theirs", layer));
  }
  return ok();
}

/// Reads the heads of all layers, and which layers share keys and values.
Result<void> read_gemma4_heads(const KeyReader& config, int64_t default_window, ModelSpec& spec) {
  LOCKSTEP_TRY(const auto window, read_window(config, default_window));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [](int64_t layer) { return (layer + 1) % 6 != 0; }, spec));
  if (!spec.windows.empty()) spec.windows.back() = 0;  // the last layer always sees everything
  LOCKSTEP_TRY(const HeadShape global, read_global_heads(config, spec));
  if (spec.query_heads % global.key_value_heads != 0) {
    return config.wrong("num_global_key_value_heads", fmt::format("a divisor of the {} query heads", spec.query_heads));
  }
  if (global != spec.usual_heads()) spec.global_heads = global;
  LOCKSTEP_TRY_VOID(read_shared_caches(config, 0, spec));
  LOCKSTEP_TRY(const bool is_wide, config.boolean_or("use_double_wide_mlp", false));
  spec.sharing_mlp_width = is_wide ? 2 : 1;
  return ok();
}

Result<void> read_gemma4_ropes(const KeyReader& config, ModelSpec& spec) {
  static const json kRopes = {
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
      {"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}}}};
  const json* ropes = config.find("rope_parameters");
  const json of_layers = {{"rope_parameters", ropes != nullptr ? *ropes : kRopes}};
  const KeyReader reader(of_layers, config.origin());
  ModelSpec global = spec;
  if (spec.global_heads) global.head_dim = spec.global_heads->head_dim;
  LOCKSTEP_TRY(spec.rope, read_layer_rope(reader, global, "full_attention", nullptr, {"rope_theta", 1e6}));
  LOCKSTEP_TRY(const RopeSpec local,
               read_layer_rope(reader, spec, "sliding_attention", nullptr, {"rope_theta", 10000.0}));
  if (local != spec.rope) spec.local_rope = local;
  return ok();
}

Result<void> read_layer_inputs(const KeyReader& config, int64_t default_size, Limits<int64_t> sizes, ModelSpec& spec) {
  LOCKSTEP_TRY(spec.layer_input_size, config.integer_or("hidden_size_per_layer_input", default_size, sizes));
  LOCKSTEP_TRY(spec.layer_input_vocabulary, config.integer_or("vocab_size_per_layer_input", 262144, kWidth));
  return ok();
}

/// Experts beside the MLP of every layer.
Result<void> read_gemma4_experts(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(spec.experts_beside_mlp, config.boolean_or("enable_moe_block", false));
  if (!spec.experts_beside_mlp) return ok();
  if (spec.layers_sharing_cache > 0 && spec.sharing_mlp_width != 1) {
    return unsupported(config, "use_double_wide_mlp", "true", "false beside experts");
  }
  spec.shared_expert_size = spec.intermediate_size;
  LOCKSTEP_TRY(spec.intermediate_size, config.integer("moe_intermediate_size", kWidth));
  LOCKSTEP_TRY(const int64_t experts, config.integer("num_experts", kWidth));
  LOCKSTEP_TRY(const int64_t chosen, config.integer("top_k_experts", kWidth));
  return read_experts(config, experts, chosen, spec);
}

/// Prompts of text are causal under "vision" too: only the tokens of an image see each other.
Result<void> require_causal_text(const KeyReader& config) {
  LOCKSTEP_TRY(const std::string found, config.text_or("use_bidirectional_attention", "vision"));
  if (found == "vision") return ok();
  return unsupported(config, "use_bidirectional_attention", fmt::format("\"{}\"", found), "null or \"vision\"");
}

Result<ModelSpec> read_gemma4(const KeyReader& config, const Gemma4Defaults& defaults) {
  LOCKSTEP_TRY_VOID(require_causal_text(config));
  FamilyKeys keys = gemma3_keys();
  keys.layers.otherwise = 30;
  keys.vocabulary.otherwise = 262144;
  keys.max_positions.otherwise = defaults.max_positions;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "gemma4_text", keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LOCKSTEP_TRY(spec.logit_soft_cap, read_soft_cap(config, "final_logit_softcapping", 0.0));
  spec.attention_scale = 1.0;
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
  spec.query_key_norm = spec.value_norm = spec.layer_scalar = true;
  LOCKSTEP_TRY_VOID(read_gemma4_heads(config, defaults.window, spec));
  LOCKSTEP_TRY_VOID(read_gemma4_ropes(config, spec));
  LOCKSTEP_TRY_VOID(read_layer_inputs(config, defaults.layer_input_size, {0, kWidth.most}, spec));
  LOCKSTEP_TRY_VOID(read_gemma4_experts(config, spec));
  return spec;
}

Result<ModelSpec> read_gemma4_text(const KeyReader& config) { return read_gemma4(config, kGemma4); }

Result<ModelSpec> read_gemma4_unified_text(const KeyReader& config) { return read_gemma4(config, kGemma4Unified); }

Result<ModelSpec> read_gemma4_images(const KeyReader& config) {
  return read_text_part(config, /*tied=*/true, read_gemma4_text, kGemma4Idle);
}

Result<ModelSpec> read_gemma4_unified_images(const KeyReader& config) {
  return read_text_part(config, /*tied=*/true, read_gemma4_unified_text, kGemma4Idle);
}

// ---- Gemma 3n ----

constexpr std::string_view kGemma3nIdle[] = {
    // the ropes inside rope_parameters, which the reader takes apart
    "full_attention",
    "sliding_attention",
    // clips coefficients while they are trained
    "altup_coef_clip",
    // of published configs; transformers has no such key
    "altup_lr_multiplier",
    "query_pre_attn_scalar",
};

/// Beside the text part.
constexpr std::string_view kGemma3nImageIdle[] = {
    "vision_config",
    "audio_config",
    "audio_soft_tokens_per_image",
    "vision_soft_tokens_per_image",
    "boi_token_id",
    "eoi_token_id",
    "image_token_id",
    "boa_token_id",
    "eoa_token_id",
    "audio_token_id",
};

/// The columns of the MLPs, given once or for each layer.
Result<void> read_equal_sizes(const KeyReader& config, ModelSpec& spec) {
  constexpr std::string_view kKey = "intermediate_size";
  const json* sizes = config.find(kKey);
  const json* one = sizes != nullptr && sizes->is_array() && !sizes->empty() ? &sizes->front() : sizes;
  if (one != sizes && *sizes != json(static_cast<size_t>(spec.layers), *one)) {
    return unsupported(config, kKey, describe(*sizes),
                       fmt::format("the same number for each of {} layers", spec.layers));
  }
  const json of_all = one != nullptr ? json{{kKey, *one}} : json::object();
  LOCKSTEP_TRY(spec.intermediate_size, KeyReader(of_all, config.origin()).integer_or(kKey, 16384, kWidth));
  return ok();
}

/// The part of the gates that each layer drops.
Result<void> read_sparsity(const KeyReader& config, ModelSpec& spec) {
  const json* parts = config.find("activation_sparsity_pattern");
  std::vector<double> sparsity(static_cast<size_t>(spec.layers), 0.0);
  if (parts == nullptr) {
    if (spec.layers > 10) std::fill_n(sparsity.begin(), 10, 0.95);
  } else {
    const bool fits =
        parts->is_array() && parts->size() == sparsity.size() &&
        std::ranges::all_of(*parts, [](const json& part) { return part.is_number() && part >= 0.0 && part < 1.0; });
    if (!fits) {
      return config.wrong("activation_sparsity_pattern",
                          fmt::format("an array of {} numbers from 0 to less than 1", spec.layers));
    }
    sparsity = parts->get<std::vector<double>>();
  }
  if (std::ranges::any_of(sparsity, [](double part) { return part > 0.0; })) spec.gate_sparsity = std::move(sparsity);
  return ok();
}

Result<void> read_streams(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(spec.streams, config.integer_or("altup_num_inputs", 4, {1, 8}));
  LOCKSTEP_TRY(spec.active_stream, config.integer_or("altup_active_idx", 0, {0, spec.streams - 1}));
  LOCKSTEP_TRY(spec.scale_active_stream, config.boolean_or("altup_correct_scale", true));
  LOCKSTEP_TRY(spec.laurel_rank, config.integer_or("laurel_rank", 64, kWidth));
  return ok();
}

Result<ModelSpec> read_gemma3n_text(const KeyReader& config) {
  FamilyKeys keys = gemma3_keys();
  keys.hidden_size.otherwise = 2048;
  keys.layers.otherwise = 35;
  keys.key_value_heads.otherwise = 2;
  keys.vocabulary.otherwise = 262400;
  keys.max_positions.otherwise = 32768;
  keys.intermediate_size = {"", 0};  // see read_equal_sizes
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "gemma3n_text", keys));
  LOCKSTEP_TRY_VOID(read_equal_sizes(config, spec));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LOCKSTEP_TRY(spec.logit_soft_cap, read_soft_cap(config, "final_logit_softcapping", 30.0));
  spec.attention_scale = 1.0;
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
  spec.query_key_norm = spec.value_norm = spec.layer_input_of_others = true;
  LOCKSTEP_TRY(const auto window, read_window(config, 512));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [](int64_t layer) { return (layer + 1) % 5 != 0; }, spec));
  LOCKSTEP_TRY_VOID(read_shared_caches(config, 15, spec));
  LOCKSTEP_TRY_VOID(read_gemma3_ropes(config, spec));
  LOCKSTEP_TRY_VOID(read_layer_inputs(config, 256, kWidth, spec));
  LOCKSTEP_TRY_VOID(read_sparsity(config, spec));
  LOCKSTEP_TRY_VOID(read_streams(config, spec));
  return spec;
}

Result<ModelSpec> read_gemma3n(const KeyReader& config) {
  return read_text_part(config, /*tied=*/true, read_gemma3n_text, kGemma3nIdle);
}

constexpr ModelType kGemmaTypes[] = {
    {"gemma2", "Gemma2ForCausalLM", read_gemma2, kGemma2Idle},
    {"gemma3", "Gemma3ForConditionalGeneration", read_gemma3, kGemma3ImageIdle},
    {"gemma3_text", "Gemma3ForCausalLM", read_gemma3_text, kGemma2Idle},
    {"gemma3n", "Gemma3nForConditionalGeneration", read_gemma3n, kGemma3nImageIdle},
    {"gemma3n_text", "Gemma3nForCausalLM", read_gemma3n_text, kGemma3nIdle},
    {"gemma4", "Gemma4ForConditionalGeneration", read_gemma4_images, kGemma4ImageIdle},
    {"gemma4_text", "Gemma4ForCausalLM", read_gemma4_text, kGemma4Idle},
    {"gemma4_unified", "Gemma4UnifiedForConditionalGeneration", read_gemma4_unified_images, kGemma4ImageIdle},
    {"gemma4_unified_text", "Gemma4UnifiedForCausalLM", read_gemma4_unified_text, kGemma4Idle},
};

}  // namespace

std::span<const ModelType> gemma_types() { return kGemmaTypes; }

}  // namespace lockstep::checkpoint
