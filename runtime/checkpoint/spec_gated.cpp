#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kMistralPositions = 131072;

FamilyKeys llama_keys() {
  FamilyKeys keys;
  keys.max_positions.otherwise = 2048;
  keys.eos_ids = {2};
  keys.bos_id = 1;
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
  LOCKSTEP_TRY(auto window, read_window(config, 4096));
  LOCKSTEP_TRY(const int64_t first, config.integer_or("max_window_layers", 28, {0, kPositions.most}));
  if (!in_use) window.reset();
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

Result<ModelSpec> read_mistral(const KeyReader& config) {
  if (config.has("layer_types")) return read_ministral(config);
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "mistral", mistral_keys()));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {}));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  slide_everywhere(window, spec);
  return spec;
}

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
  keys.eos_ids = {32000};
  keys.bos_id = 1;
  keys.pad_id = 32000;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, "phi3", keys));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.partial = true, .longrope = true, .original_max_positions = 4096}));
  LOCKSTEP_TRY(const auto window, read_window(config, std::nullopt));
  slide_everywhere(window, spec);
  return spec;
}

constexpr ModelType kGatedTypes[] = {
    {"llama", "LlamaForCausalLM", read_llama},       {"ministral", "MinistralForCausalLM", read_ministral},
    {"mistral", "MistralForCausalLM", read_mistral}, {"phi3", "Phi3ForCausalLM", read_phi3},
    {"qwen2", "Qwen2ForCausalLM", read_qwen2},       {"qwen3", "Qwen3ForCausalLM", read_qwen3},
};

}  // namespace

std::span<const ModelType> gated_types() { return kGatedTypes; }

}  // namespace lockstep::checkpoint
