// Cohere's Command R and Command R7B: attention and MLP side by side, LayerNorm without a bias, scaled logits.
#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

/// What both have in common. Neighbouring elements of a head turn.
Result<ModelSpec> read_any_cohere(const KeyReader& config, std::string_view model_type, FamilyKeys keys, double theta) {
  keys.max_positions.otherwise = 8192;
  keys.norm_epsilon = {"layer_norm_eps", 1e-5};
  keys.tied_embeddings = true;
  keys.eos_ids = {255001};
  keys.bos_id = 5;
  keys.pad_id = 0;
  LOCKSTEP_TRY(ModelSpec spec, read_family(config, model_type, keys));
  LOCKSTEP_TRY_VOID(read_attention_bias(config, false, spec));
  spec.parallel_residual = true;
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec, {.theta = {"rope_theta", theta}}));
  spec.rope.pairs = RopeSpec::Pairs::kNeighbours;
  LOCKSTEP_TRY(spec.logit_scale, config.number_or("logit_scale", 0.0625, kPositive));
  return spec;
}

Result<ModelSpec> read_cohere(const KeyReader& config) {
  LOCKSTEP_TRY_VOID(require_switch(config, "use_qk_norm", false));
  return read_any_cohere(config, "cohere", {}, 500000.0);
}

constexpr std::string_view kCohereIdle[] = {"model_max_length"};  // the tokenizer's

/// Layers without a window do not turn.
Result<ModelSpec> read_cohere2(const KeyReader& config) {
  FamilyKeys keys;
  keys.head_dim = {""};
  LOCKSTEP_TRY(ModelSpec spec, read_any_cohere(config, "cohere2", keys, 10000.0));
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  LOCKSTEP_TRY(const int64_t pattern, config.integer_or("sliding_window_pattern", 4, kWidth));
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [&](int64_t layer) { return (layer + 1) % pattern != 0; }, spec));
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.window(layer) == 0) spec.layers_without_rope.push_back(layer);
  }
  return spec;
}

constexpr std::string_view kCohere2Idle[] = {
    "head_dim",                // transformers replaces it by hidden_size / heads
    "sliding_window_pattern",  // read where layer_types is absent
    "_sliding_window_pattern",
    "cache_implementation",
    // of the code before transformers', which does not read them
    "layer_switch",
    "order_of_interleaved_layers",
    "position_embedding_type",
    "rotary_pct",
    "use_embedding_sharing",
    "use_gated_activation",
    "use_parallel_block",
    "use_parallel_embedding",
    "use_qk_norm",
};

constexpr ModelType kCohereTypes[] = {
    {"cohere", "CohereForCausalLM", read_cohere, kCohereIdle},
    {"cohere2", "Cohere2ForCausalLM", read_cohere2, kCohere2Idle},
};

}  // namespace

std::span<const ModelType> cohere_types() { return kCohereTypes; }

}  // namespace lockstep::checkpoint
