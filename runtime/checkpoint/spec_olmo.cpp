// OLMo 2 and 3 and OLMoE: queries and keys are normed across all heads.
#include <fmt/format.h>

#include "runtime/checkpoint/spec_families.h"
#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

/// What all of them have in common; no rotary embedding.
Result<ModelSpec> read_any_olmo(const KeyReader& config, std::string_view model_type, FamilyKeys keys) {
  keys.norm_epsilon.otherwise = 1e-5;
  keys.eos_ids = {50279};
  keys.pad_id = 1;
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
  LOCKSTEP_TRY(spec.routes_sum_to_one, config.boolean_or("norm_topk_prob", false));
  LOCKSTEP_TRY_VOID(read_experts(config, 64, 8, spec));
  return spec;
}

constexpr ModelType kOlmoTypes[] = {
    {"olmo2", "Olmo2ForCausalLM", read_olmo2, kNoIdle},
    {"olmo3", "Olmo3ForCausalLM", read_olmo3, kOlmo3Idle},
    {"olmoe", "OlmoeForCausalLM", read_olmoe, kNoIdle},
};

}  // namespace

std::span<const ModelType> olmo_types() { return kOlmoTypes; }

}  // namespace lockstep::checkpoint
