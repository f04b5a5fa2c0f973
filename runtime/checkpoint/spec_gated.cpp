#include <fmt/format.h>

#include <algorithm>

#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kMistralPositions = 131072;

FamilyKeys llama_keys() {
  FamilyKeys keys;
  keys.max_positions.otherwise = 2048;
  return keys;
}

FamilyKeys mistral_keys() {
  FamilyKeys keys = llama_keys();
  keys.key_value_heads.otherwise = 8;
  keys.max_positions.otherwise = kMistralPositions;
  return keys;
}

/// The keys of Qwen 2 and Qwen 3; they have no default token ids.
FamilyKeys qwen_keys() {
  FamilyKeys keys;
  keys.key_value_heads.otherwise = 32;
  keys.max_positions.otherwise = 32768;
  return keys;
}

Result<void> read_qwen_windows(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(const bool in_use, config.boolean_or("use_sliding_window", false));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096, in_use));
  LOCKSTEP_TRY(const int64_t first, config.integer_or("max_window_layers", 28, {0, kPositions.most}));
  return read_layer_windows(
      config, window, [&](int64_t layer) { return window.has_value() && layer >= first; }, spec);
}

Result<ModelSpec> read_llama(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "llama", llama_keys()));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LOCKSTEP_TRY(spec.mlp_bias, config.boolean_or("mlp_bias", false));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  return spec;
}

Result<ModelSpec> read_ministral(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "ministral", mistral_keys()));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [&](int64_t) { return window.has_value(); }, spec));
  return spec;
}

Result<ModelSpec> read_windowed_mistral(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "mistral", mistral_keys()));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  slide_everywhere(window, spec);
  return spec;
}

Result<ModelSpec> read_mistral(const KeyReader& config) {
  return config.has("layer_types") ? read_ministral(config) : read_windowed_mistral(config);
}

/// The ropes of a config without any.
nlohmann::json ministral3_rope() {
  return {{"rope_type", "yarn"}, {"rope_theta", 1e6},     {"factor", 16.0},
          {"beta_fast", 32.0},   {"beta_slow", 1.0},      {"original_max_position_embeddings", 16384},
          {"mscale", 1.0},       {"mscale_all_dim", 1.0}, {"llama_4_scaling_beta", 0.1}};
}

Result<ModelSpec> read_ministral3(const KeyReader& config) {
  FamilyKeys keys = mistral_keys();
  keys.head_dim.otherwise = 128;
  keys.max_positions.otherwise = 262144;
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "ministral3", keys));
  LOCKSTEP_TRY(const std::string_view key, rope_key(config));
  LOCKSTEP_TRY(const auto given, config.object(key));
  LOCKSTEP_TRY_VOID(read_growing_rope(config, given ? *config.find(key) : ministral3_rope(), spec));
  LOCKSTEP_TRY(const auto window, read_window(config, std::nullopt));
  slide_everywhere(window, spec);
  return spec;
}

constexpr std::string_view kMinistral3Idle[] = {
    "max_position_embeddings",  // in rope_parameters: transformers does not read it there
};

constexpr std::string_view kMistralPartIdle[] = {
    "layer_types",  // transformers reads it where the text model stands alone
};

/// Mistral Small 3.1 and later, Ministral 3, Mistral Small 4: a text model beside a vision model.
Result<ModelSpec> read_mistral3(const KeyReader& config) {
  LOCKSTEP_TRY(const auto text, config.object("text_config"));
  if (!text) return config.wrong("text_config", "an object");
  LOCKSTEP_TRY(const std::string model_type, text->text_or("model_type", "mistral"));
  if (model_type == "mistral") {
    return read_text_part(config, /*tied=*/true, read_windowed_mistral, kMistralPartIdle);
  }
  if (model_type == "ministral3") return read_text_part(config, /*tied=*/true, read_ministral3, kMinistral3Idle);
  if (model_type == "mistral4") return read_mistral4_part(config);
  return unsupported(*text, "model_type", fmt::format("\"{}\"", model_type), "mistral, ministral3 or mistral4");
}

constexpr std::string_view kMistral3Idle[] = {"vision_config",        "image_token_index",         "image_token_id",
                                              "projector_hidden_act", "multimodal_projector_bias", "spatial_merge_size",
                                              "vision_feature_layer"};

// ---- Llama 4: chunks instead of windows, layers without a rope, experts by one sigmoid each ----

/// Layers with a rope attend within chunks, unless `layer_types` is given.
Result<void> read_chunks(const KeyReader& config, ModelSpec& spec) {
  const bool has_none = config.is_null("attention_chunk_size");
  LOCKSTEP_TRY(const int64_t chunk, config.integer_or("attention_chunk_size", 8192, kPositions));
  LOCKSTEP_TRY(const std::vector<size_t> kinds,
               read_layer_kinds(config, "layer_types", spec.layers, {"full_attention", "chunked_attention"}));
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const bool is_chunked = kinds.empty() ? spec.has_rope(layer) && !has_none : kinds[static_cast<size_t>(layer)] == 1;
    spec.windows.push_back(is_chunked ? chunk : 0);
  }
  spec.chunked_windows = true;
  return ok();
}

/// Queries of layers without a rope grow with their position.
Result<void> read_temperature(const KeyReader& config, ModelSpec& spec) {
  const auto* tunes = config.find("attn_temperature_tuning");  // a boolean; in some files a number
  LOCKSTEP_TRY(const int64_t every, config.integer_or("floor_scale", 8192, kPositions));
  LOCKSTEP_TRY(const double beta, config.number_or("attn_scale", 0.1, {0.0, 1e6}));
  const bool is_off = tunes != nullptr && (*tunes == false || *tunes == 0);
  if (!is_off && !spec.layers_without_rope.empty()) spec.query_scaling = {.beta = beta, .every = every, .offset = 1};
  return ok();
}

Result<ModelSpec> read_llama4_text(const KeyReader& config) {
  FamilyKeys keys = llama_keys();
  keys.key_value_heads.otherwise = 8;
  keys.head_dim.otherwise = 128;
  keys.max_positions.otherwise = 131072;
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "llama4_text", keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  LOCKSTEP_TRY(spec.query_key_norm, config.boolean_or("use_qk_norm", true));
  spec.norm_after_rope = spec.plain_head_norm = spec.query_key_norm;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.theta = {"rope_theta", 500000.0}}));
  spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  LOCKSTEP_TRY_VOID(read_no_rope_layers(config, spec));
  LOCKSTEP_TRY_VOID(read_chunks(config, spec));
  LOCKSTEP_TRY_VOID(read_temperature(config, spec));
  LOCKSTEP_TRY_VOID(read_experts(config, 16, 1, spec));
  spec.router = {.scores = RouterSpec::Scores::kSigmoid, .sum_to_one = false, .on_inputs = true};
  spec.shared_expert_size = spec.intermediate_size;
  LOCKSTEP_TRY(const int64_t step, config.integer_or("interleave_moe_layer_step", 1, kWidth));
  const auto* list = config.find("moe_layers");
  if (list != nullptr && !list->is_array()) return config.wrong("moe_layers", "an array of layers");
  const auto is_dense = [&](int64_t layer) {
    return list != nullptr ? std::find(list->begin(), list->end(), layer) == list->end() : (layer + 1) % step != 0;
  };
  LOCKSTEP_TRY_VOID(read_dense_layers(config, is_dense, {"intermediate_size_mlp", 16384}, spec));
  return spec;
}

constexpr std::string_view kLlama4Idle[] = {
    "router_jitter_noise",  // of training
    "for_llm_compressor",   // of another library
};

Result<ModelSpec> read_llama4(const KeyReader& config) {
  return read_text_part(config, /*tied=*/false, read_llama4_text, kLlama4Idle);
}

constexpr std::string_view kLlama4OuterIdle[] = {"vision_config", "image_token_index", "boi_token_index",
                                                 "eoi_token_index"};

Result<ModelSpec> read_qwen2(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "qwen2", qwen_keys()));
  spec.attention_bias = true;  // not on the output
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY_VOID(read_qwen_windows(config, spec));
  return spec;
}

Result<ModelSpec> read_qwen3(const KeyReader& config) {
  FamilyKeys keys = qwen_keys();
  keys.head_dim.otherwise = 128;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "qwen3", keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  spec.query_key_norm = true;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY_VOID(read_qwen_windows(config, spec));
  return spec;
}

Result<ModelSpec> read_phi3(const KeyReader& config) {
  FamilyKeys keys;
  keys.max_positions.otherwise = 4096;
  keys.norm_epsilon.otherwise = 1e-5;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "phi3", keys));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.partial = true, .longrope = true, .original_max_positions = 4096}));
  LOCKSTEP_TRY(const auto window, read_window(config, std::nullopt));
  slide_everywhere(window, spec);
  return spec;
}

constexpr std::string_view kLlamaIdle[] = {
    // of code before transformers' and of other libraries
    "is_llama_config",
    "max_sequence_length",
    "rope_interleaved",
};

constexpr std::string_view kPhi3Idle[] = {
    "embd_pdrop",
    "resid_pdrop",
    // of the code beside the files, which transformers does not read
    "attention_bias",
    "full_attn_mod",
    "interpolate_factor",
    "lm_head_bias",
    "mlp_bias",
};

constexpr std::string_view kQwen2Idle[] = {"use_mrope"};  // of models that read images

constexpr ModelType kGatedTypes[] = {
    {"llama", "LlamaForCausalLM", read_llama, kLlamaIdle},
    {"llama4", "Llama4ForConditionalGeneration", read_llama4, kLlama4OuterIdle},
    {"llama4_text", "Llama4ForCausalLM", read_llama4_text, kLlama4Idle},
    {"ministral", "MinistralForCausalLM", read_ministral},
    {"ministral3", "Ministral3ForCausalLM", read_ministral3, kMinistral3Idle},
    {"mistral", "MistralForCausalLM", read_mistral},
    {"mistral3", "Mistral3ForConditionalGeneration", read_mistral3, kMistral3Idle},
    {"phi3", "Phi3ForCausalLM", read_phi3, kPhi3Idle},
    {"qwen2", "Qwen2ForCausalLM", read_qwen2, kQwen2Idle},
    {"qwen3", "Qwen3ForCausalLM", read_qwen3, kQwen2Idle},
};

}  // namespace

std::span<const ModelType> gated_types() { return kGatedTypes; }

}  // namespace lockstep::checkpoint
