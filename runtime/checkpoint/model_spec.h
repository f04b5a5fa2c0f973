// What a config.json says, in one value: the architecture of a decoder-only model. Everything that is planned before
// weights are read (partition, graphs, memory) is a function of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/dtype.h"
#include "runtime/core/field_list.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// How positions are turned into rotations (rotary position embedding).
struct RopeSpec {
  enum class Kind { kDefault, kLinear, kLlama3, kYarn, kLongrope };
  /// Which elements of a head turn together: (i, i + rotated / 2), or (2i, 2i + 1) as in GPT-J.
  enum class Pairs { kHalves, kNeighbours };

  Kind kind = Kind::kDefault;
  Pairs pairs = Pairs::kHalves;
  int64_t rotated = 0;  // elements of a head that turn, even; the others stay
  double theta = 10000.0;
  double factor = 1.0;
  double low_frequency_factor = 1.0;              // llama3
  double high_frequency_factor = 4.0;             // llama3
  std::optional<int64_t> original_max_positions;  // llama3, yarn, longrope; the model's maximum if absent
  double beta_fast = 32.0;                        // yarn
  double beta_slow = 1.0;                         // yarn
  bool truncate = true;                           // yarn
  std::optional<double> attention_factor;         // yarn, longrope; otherwise it follows from the factors
  std::optional<double> mscale, mscale_all_dim;   // yarn
  std::vector<double> short_factors;              // longrope, [rotated / 2]: rows up to the original maximum
  std::vector<double> long_factors;               // longrope, [rotated / 2]: longer rows

  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};
LOCKSTEP_FIELDS(RopeSpec, kind, pairs, rotated, theta, factor, low_frequency_factor, high_frequency_factor,
                original_max_positions, beta_fast, beta_slow, truncate, attention_factor, mscale, mscale_all_dim,
                short_factors, long_factors);

/// How a model knows where a token stands.
enum class Positions { kRotary, kLearned, kAlibi };

/// What an MLP is: down(act(up)), or down(act(gate) · up), or a mixture of the latter.
enum class Mlp { kPlain, kGated, kExperts };

/// A model's architecture, with every default filled in. What a family never has keeps its neutral value.
struct ModelSpec {
  std::string model_type;  // "llama"; of the text in a "gemma3": "gemma3_text"; a "mistral" of layer types: "ministral"
  int64_t hidden_size = 0;
  int64_t embedding_size = 0;  // of a token; hidden_size except for OPT, which may project it
  int64_t layers = 0;
  int64_t vocabulary = 0;
  int64_t max_positions = 0;  // BLOOM: of its training (`seq_length`); its positions have no end
  double norm_epsilon = 1e-6;
  double embedding_scale = 1.0;  // Gemma: √hidden_size, to be rounded to the model's type
  double logit_soft_cap = 0.0;   // c · tanh(logit / c); 0: none
  bool tied_embeddings = false;
  bool head_bias = false;  // on the logits

  // attention
  int64_t query_heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_dim = 0;             // need not be hidden_size / query_heads
  double attention_scale = 0.0;     // on q · k
  double attention_soft_cap = 0.0;  // as logit_soft_cap
  bool attention_bias = false;      // on q, k and v
  bool attention_output_bias = false;
  bool query_key_norm = false;   // of each head, before its rotation
  bool attention_sinks = false;  // a learned logit per head in the softmax's denominator
  bool scale_by_layer = false;   // attention_scale / (layer + 1) (GPT-2)
  std::vector<int64_t> windows;  // [layers]: keys that a token sees, itself included; 0: all. Empty: no layer has one
  int64_t pinned_sinks = 0;      // first positions that layers with a window keep seeing (StreamingLLM)

  // positions
  Positions positions = Positions::kRotary;
  int64_t position_offset = 0;         // learned: row of position 0 in the table (OPT: 2)
  RopeSpec rope;                       // kRotary only
  std::optional<RopeSpec> local_rope;  // of the layers with a window, where it differs (Gemma 3)

  // MLP
  Mlp mlp = Mlp::kGated;
  int64_t intermediate_size = 0;    // of each expert, where there are experts
  std::string activation = "silu";  // silu, gelu, gelu_tanh, relu; of gpt-oss: clamped_swiglu
  double swiglu_limit = 0.0;        // clamped_swiglu
  double swiglu_alpha = 0.0;        // clamped_swiglu: gate · sigmoid(alpha · gate)
  bool mlp_bias = false;
  int64_t experts = 0;
  int64_t experts_per_token = 0;

  // how a layer is put together
  bool norm_before = true;           // OPT 350m norms after the residual sum
  bool parallel_residual = false;    // attention and MLP read the same x (GPT-J, GPT-NeoX)
  bool residual_after_norm = false;  // the residual is what the norm gave (BLOOM's option)

  DType dtype = DType::kFloat32;  // of the checkpoint, as the config states it
  int64_t int8_group = 0;         // of the matrices as they are served: columns that share a scale; 0: not in 8 bits
  std::vector<int32_t> eos_ids;
  std::optional<int32_t> bos_id, pad_id;

  /// The window of `layer`; 0: none.
  int64_t window(int64_t layer) const { return windows.empty() ? 0 : windows[static_cast<size_t>(layer)]; }
  /// The rotation of `layer`.
  const RopeSpec& rope_of(int64_t layer) const { return window(layer) > 0 && local_rope ? *local_rope : rope; }

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};
LOCKSTEP_FIELDS(ModelSpec, model_type, hidden_size, embedding_size, layers, vocabulary, max_positions, norm_epsilon,
                embedding_scale, logit_soft_cap, tied_embeddings, head_bias, query_heads, key_value_heads, head_dim,
                attention_scale, attention_soft_cap, attention_bias, attention_output_bias, query_key_norm,
                attention_sinks, scale_by_layer, windows, pinned_sinks, positions, position_offset, rope, local_rope,
                mlp, intermediate_size, activation, swiglu_limit, swiglu_alpha, mlp_bias, experts, experts_per_token,
                norm_before, parallel_residual, residual_after_norm, dtype, int8_group, eos_ids, bos_id, pad_id);

/// The model types that `read_spec` accepts, for messages.
std::vector<std::string> supported_model_types();

/// Reads a config.json. Fails with `kNotFound` (no such file), `kInvalidArgument` (not JSON; a key that is missing, of
/// the wrong type or out of range, named) or `kUnsupported` (model type, rope kind, activation, quantised weights, a
/// switch of the family that we do not have; the message says what is supported).
Result<ModelSpec> read_spec(const std::filesystem::path& config_json);

/// The same from the text of a config; `origin` names it in messages.
Result<ModelSpec> parse_spec(std::string_view config, std::string_view origin);

/// The inverse frequencies f32 [rotated / 2] and the factor on cos and sin, as transformers computes them
/// (modeling_rope_utils.py) for `rope` in a model of `spec`.
struct RopeTable {
  std::vector<float> frequencies;
  std::vector<float> long_frequencies;  // longrope: of rows longer than the original maximum; else empty
  double scale = 1.0;
};
Result<RopeTable> rope_table(const ModelSpec& spec, const RopeSpec& rope);

}  // namespace lockstep::checkpoint
