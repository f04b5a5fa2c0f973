#include <fmt/format.h>

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
  keys.eos_ids = {1};
  keys.bos_id = 2;
  keys.pad_id = 0;
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

Result<ModelSpec> read_gemma3_text(const KeyReader& config) {
  LOCKSTEP_TRY(ModelSpec spec, read_gemma(config, "gemma3_text", gemma3_keys()));
  LOCKSTEP_TRY(spec.attention_soft_cap, read_soft_cap(config, "attn_logit_softcapping", 0.0));
  LOCKSTEP_TRY(spec.logit_soft_cap, read_soft_cap(config, "final_logit_softcapping", 0.0));
  spec.query_key_norm = true;
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  LOCKSTEP_TRY(const int64_t pattern, config.integer_or("sliding_window_pattern", 6, kWidth));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [pattern](int64_t layer) { return (layer + 1) % pattern != 0; }, spec));
  LOCKSTEP_TRY(const auto scaling, config.object("rope_scaling"));
  LOCKSTEP_TRY(spec.rope, read_layer_rope(config, spec, "full_attention",
                                          scaling ? config.find("rope_scaling") : nullptr, {"rope_theta", 1e6}));
  LOCKSTEP_TRY(const RopeSpec local,
               read_layer_rope(config, spec, "sliding_attention", nullptr, {"rope_local_base_freq", 10000.0}));
  if (local != spec.rope) spec.local_rope = local;
  return spec;
}

Result<ModelSpec> read_gemma3(const KeyReader& config) {
  LOCKSTEP_TRY(const json text, text_part(config, /*tied=*/true));
  const KeyReader reader(text, fmt::format("{}: text_config", config.origin()));
  LOCKSTEP_TRY_VOID(require_plain_weights(reader, "gemma3_text"));
  return read_gemma3_text(reader);
}

constexpr ModelType kGemmaTypes[] = {
    {"gemma2", "Gemma2ForCausalLM", read_gemma2},
    {"gemma3", "Gemma3ForConditionalGeneration", read_gemma3},
    {"gemma3_text", "Gemma3ForCausalLM", read_gemma3_text},
};

}  // namespace

std::span<const ModelType> gemma_types() { return kGemmaTypes; }

}  // namespace lockstep::checkpoint
