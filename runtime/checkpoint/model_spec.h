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
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// How positions are turned into rotations (rotary position embedding).
struct RopeSpec {
  enum class Kind { kDefault, kLinear, kLlama3, kYarn };

  Kind kind = Kind::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  double low_frequency_factor = 1.0;              // llama3
  double high_frequency_factor = 4.0;             // llama3
  std::optional<int64_t> original_max_positions;  // llama3, yarn; the model's maximum if absent
  double beta_fast = 32.0;                        // yarn
  double beta_slow = 1.0;                         // yarn
  bool truncate = true;                           // yarn
  std::optional<double> attention_factor;         // yarn; otherwise it follows from the factors
  std::optional<double> mscale, mscale_all_dim;   // yarn

  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

/// A model's architecture, with every default filled in.
struct ModelSpec {
  std::string model_type;  // "llama"
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t query_heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_dim = 0;  // need not be hidden_size / query_heads
  int64_t intermediate_size = 0;
  int64_t vocabulary = 0;
  int64_t max_positions = 0;
  double norm_epsilon = 1e-6;
  std::string activation = "silu";
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tied_embeddings = false;
  RopeSpec rope;
  DType dtype = DType::kFloat32;  // of the checkpoint, as the config states it
  std::vector<int32_t> eos_ids;
  std::optional<int32_t> bos_id, pad_id;

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

/// The model types that `read_spec` accepts, for messages.
std::vector<std::string> supported_model_types();

/// Reads a config.json. Fails with `kNotFound` (no such file), `kInvalidArgument` (not JSON; a key that is missing, of
/// the wrong type or out of range, named) or `kUnsupported` (model type, rope kind, activation, quantised weights; the
/// message lists what is supported).
Result<ModelSpec> read_spec(const std::filesystem::path& config_json);

/// The same from the text of a config; `origin` names it in messages.
Result<ModelSpec> parse_spec(std::string_view config, std::string_view origin);

/// The inverse frequencies f32 [head_dim / 2] and the factor on cos and sin, as transformers computes them
/// (modeling_rope_utils.py) for a model of `spec`.
struct RopeTable {
  std::vector<float> frequencies;
  double scale = 1.0;
};
Result<RopeTable> rope_table(const ModelSpec& spec);

}  // namespace lockstep::checkpoint
