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
    "use_cache",
    // slices of the training's matrices; transformers' decoders with rotary positions do not read it
    "pretraining_tp",
    // which class of which library, where it came from, how its kernels are chosen
    "architectures",
    "auto_map",
    "transformers_version",
    "_name_or_path",
    "_attn_implementation",
    "_attn_implementation_autoset",
    // what the class returns beside logits
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
  return ok();
}

}  // namespace lockstep::checkpoint
