// What the readers of all model types share: where a family keeps the keys that every decoder has, what each is when it
// is left out, and the parts (windows, rotary embeddings) that several families spell alike. Private to this folder.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/json_document.h"
#include "runtime/checkpoint/model_spec.h"

namespace lockstep::checkpoint {

// Generous bounds that keep every product of two of them inside 64 bits.
inline constexpr Limits<int64_t> kWidth{1, int64_t{1} << 24};
inline constexpr Limits<int64_t> kPositions{1, (int64_t{1} << 31) - 1};
inline constexpr Limits<double> kPositive{1e-6, 1e12};

/// A key and its value when it is left out; without one the key must be there. No name: the value is fixed.
template <typename T>
struct Key {
  std::string_view name;
  std::optional<T> otherwise = std::nullopt;
};

/// The keys that every decoder has, as most families spell them.
struct FamilyKeys {
  Key<int64_t> hidden_size{"hidden_size"};
  Key<int64_t> layers{"num_hidden_layers"};
  Key<int64_t> query_heads{"num_attention_heads"};
  Key<int64_t> key_value_heads{"num_key_value_heads"};  // otherwise, and null: as many as query heads
  Key<int64_t> head_dim{"head_dim"};                    // otherwise, and null: hidden_size / query_heads
  Key<int64_t> intermediate_size{"intermediate_size"};
  Key<int64_t> vocabulary{"vocab_size"};
  Key<int64_t> max_positions{"max_position_embeddings"};
  Key<double> norm_epsilon{"rms_norm_eps", 1e-6};
  Key<std::string_view> activation{"hidden_act", "silu"};
  bool tied_embeddings = false;  // without tie_word_embeddings
  std::vector<int32_t> eos_ids;  // without eos_token_id, and so on
  std::optional<int32_t> bos_id, pad_id;
};

/// How a family spells its rotary embeddings and which kinds it has.
struct RopeKeys {
  Key<double> theta{"rope_theta", 10000.0};            // beside the object; inside it is always rope_theta
  Key<double> rotated{"partial_rotary_factor", 1.0};   // as theta
  bool partial = false;                                // may rotate less than the whole head
  bool longrope = false;                               // Phi-3: default and longrope, no other kind
  std::optional<int64_t> original_max_positions = {};  // without the key at the top level, whatever the object says
};

/// A model that is right, but that we cannot run; kind `kUnsupported`.
Error unsupported(const KeyReader& config, std::string_view key, std::string_view found, std::string_view supported);

/// The key of two that a config has; `name` if it has neither.
std::string_view either(const KeyReader& config, std::string_view preferred, std::string_view name);

/// Fails with `kUnsupported` where a switch that we do not implement differs from `expected`.
Result<void> require_switch(const KeyReader& config, std::string_view key, bool expected);

/// Whether weights of `config` are quantised in a way that nobody decodes: fails with `kUnsupported`.
Result<void> require_plain_weights(const KeyReader& config, std::string_view model_type);

/// Everything that `keys` names, with the checks that hold for all families; no windows, no rotation.
Result<ModelSpec> read_family(const KeyReader& config, std::string_view model_type, const FamilyKeys& keys);

/// The key `sliding_window`: `otherwise` if it is left out, none if it is null.
Result<std::optional<int64_t>> read_window(const KeyReader& config, std::optional<int64_t> otherwise);

/// Gives `window` to the layers that slide: those that `layer_types` says, or `slides(layer)` without that key.
Result<void> read_layer_windows(const KeyReader& config, std::optional<int64_t> window,
                                const std::function<bool(int64_t)>& slides, ModelSpec& spec);

/// The rotation of a model whose heads are read. Both spellings: `rope_scaling` (and `rope_theta` beside it) wins over
/// `rope_parameters`; a key inside the object wins over the one outside.
Result<RopeSpec> read_rope(const KeyReader& config, const ModelSpec& spec, const RopeKeys& keys);

}  // namespace lockstep::checkpoint
