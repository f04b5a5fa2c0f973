// Shared code of the readers of all model types: the names and defaults of the keys that every decoder has, and the
// parts (windows, rotary embeddings) with a common notation. Private to this folder.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/model_spec.h"

namespace lockstep::checkpoint {

// Generous bounds; the product of any two fits in 64 bits.
inline constexpr Limits<int64_t> kWidth{1, int64_t{1} << 24};
inline constexpr Limits<int64_t> kPositions{1, (int64_t{1} << 31) - 1};
inline constexpr Limits<double> kPositive{1e-6, 1e12};
inline constexpr Limits<int64_t> kExperts{1, int64_t{1} << 16};

/// A key and its default; without a default the key is required. An empty name means that the value is fixed.
template <typename T>
struct Key {
  std::string_view name;
  std::optional<T> otherwise = std::nullopt;
};

/// The keys of every decoder, with their most common names.
struct FamilyKeys {
  Key<int64_t> hidden_size{"hidden_size"};
  Key<int64_t> layers{"num_hidden_layers"};
  Key<int64_t> query_heads{"num_attention_heads"};
  Key<int64_t> key_value_heads{"num_key_value_heads"};  // absent or null: as many as query heads
  Key<int64_t> head_dim{"head_dim"};                    // absent or null: hidden_size / query_heads
  Key<int64_t> intermediate_size{"intermediate_size"};
  Key<int64_t> vocabulary{"vocab_size"};
  Key<int64_t> max_positions{"max_position_embeddings"};
  Key<double> norm_epsilon{"rms_norm_eps", 1e-6};
  Key<std::string_view> activation{"hidden_act", "silu"};
  bool tied_embeddings = false;  // if tie_word_embeddings is absent
};

/// The keys and kinds of a family's rotary embeddings.
struct RopeKeys {
  Key<double> theta{"rope_theta", 10000.0};            // beside the object; inside it the key is always rope_theta
  Key<double> rotated{"partial_rotary_factor", 1.0};   // as theta
  bool partial = false;                                // may rotate less than the whole head
  bool longrope = false;                               // Phi-3: default and longrope, no other kind
  bool scales_queries = false;                         // the object may have llama_4_scaling_beta
  std::optional<int64_t> original_max_positions = {};  // without the key at the top level, even if the object has it
};

/// The error of a valid model that is not supported; kind `kUnsupported`.
Error unsupported(const KeyReader& config, std::string_view key, std::string_view found, std::string_view supported);

/// The first of two keys that the config has; `name` if it has neither.
std::string_view either(const KeyReader& config, std::string_view preferred, std::string_view name);

/// Fails with `kUnsupported` if an unimplemented switch differs from `expected`.
Result<void> require_switch(const KeyReader& config, std::string_view key, bool expected);

/// Fails with `kUnsupported` if the weights of `config` are quantised in a way that the family never is; other ways are
/// read by quantisation_config.h.
Result<void> require_known_quantisation(const KeyReader& config, std::string_view model_type);

/// Reads everything named by `keys`, with the checks common to all families; no windows, no rotary embedding.
Result<ModelSpec> read_family(const KeyReader& config, std::string_view model_type, const FamilyKeys& keys);

/// Reads `attention_bias`, of q, k, v and the output.
Result<void> read_attention_bias(const KeyReader& config, bool otherwise, ModelSpec& spec);

/// The key `sliding_window`: `otherwise` if absent, none if null or 0 (as Qwen2-MoE writes a window that is not in
/// use).
Result<std::optional<int64_t>> read_window(const KeyReader& config, std::optional<int64_t> otherwise,
                                           bool in_use = true);

/// Sets `window`, if there is one, for all layers.
void slide_everywhere(std::optional<int64_t> window, ModelSpec& spec);

/// Sets `window` for the layers selected by `layer_types` or, without that key, by `slides(layer)`.
Result<void> read_layer_windows(const KeyReader& config, std::optional<int64_t> window,
                                const std::function<bool(int64_t)>& slides, ModelSpec& spec);

/// The array `key` with a value for each layer, or null without the key; `each` describes a value in errors.
Result<const nlohmann::json*> read_layer_list(const KeyReader& config, std::string_view key, int64_t layers,
                                              std::string_view each = "one type per layer");

/// By layer, which of two `kinds` the array `key` names; empty without the key.
Result<std::vector<size_t>> read_layer_kinds(const KeyReader& config, std::string_view key, int64_t layers,
                                             const std::array<std::string_view, 2>& kinds);

/// Reads the numbers of experts, all and of a token.
Result<void> read_experts(const KeyReader& config, int64_t default_experts, int64_t default_chosen, ModelSpec& spec);

/// EXAONE's windows: those of `layer_types`, or of all layers except every `sliding_window_pattern`th. In a model with
/// windows, layers without one have no rope.
Result<void> read_exaone_windows(const KeyReader& config, ModelSpec& spec);

/// Reads the `text_config` of a multimodal model, completed by the keys beside it; `tied` is the default of
/// tie_word_embeddings. Refuses every key that `read` does not ask for, except `idle`.
Result<ModelSpec> read_text_part(const KeyReader& config, bool tied,
                                 const std::function<Result<ModelSpec>(const KeyReader&)>& read,
                                 std::span<const std::string_view> idle = {});

/// Sets the layers without experts; `size` is the key of their MLP's columns.
Result<void> read_dense_layers(const KeyReader& config, const std::function<bool(int64_t)>& is_dense, Key<int64_t> size,
                               ModelSpec& spec);

/// The layers without experts by `mlp_layer_types`; without that key the first ones, as many as
/// `first_k_dense_replace`.
Result<void> read_first_dense_layers(const KeyReader& config, int64_t default_first, Key<int64_t> size,
                                     ModelSpec& spec);

/// Reads `key`, how many experts wide the shared expert is; required without a default.
Result<void> read_shared_expert(const KeyReader& config, Key<int64_t> key, int64_t least, ModelSpec& spec);

/// Groups of experts without the keys `n_group` and `topk_group`.
struct DefaultGroups {
  int64_t groups = 1;
  int64_t kept = 1;
};

/// Reads the groups that a router chooses from.
Result<void> read_groups(const KeyReader& config, DefaultGroups otherwise, RouterSpec::GroupScore score,
                         ModelSpec& spec);

/// The router of DeepSeek-V3 and those after it: sigmoids, a bias, groups by their best two.
Result<void> read_grouped_router(const KeyReader& config, DefaultGroups groups, bool sum_to_one, double scale,
                                 ModelSpec& spec);

/// Qwen's layers without experts: all except every `decoder_sparse_step`th, and `mlp_only_layers`.
Result<void> read_sparse_layers(const KeyReader& config, int64_t default_size, ModelSpec& spec);

/// Reads `no_rope_layers`, a number for each layer: 0 for one without a rope. By default every
/// `no_rope_layer_interval`th layer has none.
Result<void> read_no_rope_layers(const KeyReader& config, ModelSpec& spec);

/// Reads the rotary embedding; the spec's heads are already set. `rope_scaling` (with `rope_theta` beside it) overrides
/// `rope_parameters`; a key inside the object overrides the one outside.
Result<RopeSpec> read_rope(const KeyReader& config, const ModelSpec& spec, const RopeKeys& keys);

/// The key of the rope's object, if there is one: `rope_scaling`, where that is absent or empty `rope_parameters`.
Result<std::string_view> rope_key(const KeyReader& config);

/// `original_max_position_embeddings` at the top level of a config, which overrides that of the rope.
Result<int64_t> read_original_maximum(const KeyReader& config, int64_t otherwise);

/// Reads a rope, `rope_parameters`, and how queries grow with their position (Ministral
/// 3).
Result<void> read_growing_rope(const KeyReader& config, nlohmann::json rope_parameters, ModelSpec& spec);

/// The rotary embedding of one kind of layers in the common notation: `rope_parameters.<layers>`, overridden by
/// `rope_scaling`, with `theta` beside it.
Result<RopeSpec> read_layer_rope(const KeyReader& config, const ModelSpec& spec, std::string_view layers,
                                 const nlohmann::json* rope_scaling, Key<double> theta);

/// Fails with `kUnsupported`, naming the first key of `document` that is not null, not in `read`, not in `idle` and not
/// one of the keys that are without effect in every family.
Result<void> require_known_keys(const nlohmann::json& document, const KeyReader& config, const KeyReader::Names& read,
                                std::span<const std::string_view> idle);

}  // namespace lockstep::checkpoint
