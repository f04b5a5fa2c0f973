#include "runtime/checkpoint/idle_keys.h"

#include <algorithm>

#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

/// Keys without effect in every family, by reason.
constexpr std::string_view kIdleKeys[] = {
    // training: initial weights, dropout, losses
    "initializer_range",
    "attention_dropout",
    "hidden_dropout",
    "residual_dropout",
    "embedding_dropout",
    "output_router_logits",
    "router_aux_loss_coef",
    // slices of the training's matrices; transformers' decoders with rotary positions do not read it
    "pretraining_tp",
    // which class of which library, where it came from, how its kernels are chosen
    "architectures",
    "auto_map",
    "transformers_version",
    "_name_or_path",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "unsloth_fixed",
    "unsloth_version",
    // what the class returns beside logits, and whether it keeps keys and values
    "use_cache",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "problem_type",
    "id2label",
    "label2id",
    "chunk_size_feed_forward",
    // maximum of the training of some ropes; the kinds without it do not read it
    "original_max_position_embeddings",
};

/// The keys of a rope object that spec_rope.cpp reads for one kind or another; Hunyuan's reader resolves `alpha`.
constexpr std::string_view kRopeKeys[] = {
    "rope_type",       "type",
    "rope_theta",      "partial_rotary_factor",
    "factor",          "original_max_position_embeddings",
    "low_freq_factor", "high_freq_factor",
    "beta_fast",       "beta_slow",
    "truncate",        "attention_factor",
    "mscale",          "mscale_all_dim",
    "short_factor",    "long_factor",
    "alpha",
};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

Result<void> require_known_keys(const nlohmann::json& document, const KeyReader& config, const KeyReader::Names& read,
                                std::span<const std::string_view> idle) {
  for (const auto& [key, value] : document.items()) {
    if (value.is_null() || read.contains(key) || contains(idle, key) || contains(kIdleKeys, key)) continue;
    return unsupported(config, key, describe(value),
                       "only keys that this program knows, because it may change results");
  }
  for (const std::string_view rope : {"rope_scaling", "rope_parameters"}) {
    LOCKSTEP_TRY(const auto object, config.object(rope));
    if (!object) continue;
    for (const auto& [key, value] : config.find(rope)->items()) {
      if (!value.is_null() && !contains(kRopeKeys, key)) {
        return unsupported(*object, key, describe(value), "only keys of ropes that this program knows");
      }
    }
  }
  return ok();
}

}  // namespace lockstep::checkpoint
