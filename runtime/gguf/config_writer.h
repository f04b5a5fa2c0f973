// The config.json of a GGUF model while it is written: keys of the metadata under Hugging Face's names. Private to this
// folder.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/gguf/gguf_model.h"

namespace lockstep::gguf {

/// A key of the metadata, after the architecture's name, and its key in config.json.
struct KeyPair {
  std::string_view key;
  std::string_view name;
};

/// Reads the metadata of one architecture. Values and ranges are checked by the reader of config.json.
class ConfigWriter {
 public:
  ConfigWriter(const GgufModel& model, std::string architecture)
      : model_(model), architecture_(std::move(architecture)) {}

  nlohmann::json& config() { return config_; }
  const GgufModel& model() const { return model_; }

  /// The value of the architecture's `key`; null if absent. An array of equal elements counts as one of them.
  Result<nlohmann::json> value(std::string_view key) const;
  /// The integer `key`, without which the model is incomplete.
  Result<int64_t> integer(std::string_view key) const;
  /// The integer `key`, or `otherwise`.
  Result<int64_t> integer_or(std::string_view key, int64_t otherwise) const;
  Result<double> number_or(std::string_view key, double otherwise) const;
  /// Copies the keys that the model has.
  Result<void> copy(std::span<const KeyPair> pairs);
  /// The values of a tensor of one dimension in float32.
  Result<std::vector<float>> floats(std::string_view tensor) const;

  bool has(std::string_view key) const { return model_.find(full(key)) != nullptr; }
  bool has_tensor(std::string_view name) const { return model_.find_tensor(name) != nullptr; }
  /// "llama.rope.freq_base".
  std::string full(std::string_view key) const;

  /// Removes a key that the family's config.json does not have.
  void erase(std::string_view name) { config_.erase(std::string(name)); }
  void rename(std::string_view name, std::string_view to);

  Error wrong(std::string_view key, std::string_view found_and_expected) const;
  Error unsupported(std::string_view found_and_expected) const;

 private:
  const GgufModel& model_;
  std::string architecture_;
  nlohmann::json config_ = nlohmann::json::object();
};

/// Translates the keys of the rotary embedding beside its base: `rope_scaling`.
Result<void> write_rope_scaling(ConfigWriter& writer);

/// Writes the rotated part of a head as `name`, unless all of it turns.
Result<void> write_rotated_part(ConfigWriter& writer, std::string_view name);

/// Writes `rope_parameters` of queries that grow with their position by `beta`; `mscale`: of scores, in a YaRN.
void write_growing_rope(ConfigWriter& writer, const nlohmann::json& beta, double mscale);

/// Leaves out the layers that predict further tokens: the last ones of a file, not part of the model.
Result<void> leave_out_drafting_layers(ConfigWriter& writer);

/// Writes which layers have a window as `layer_types`, where the model lists them.
Result<void> write_layer_types(ConfigWriter& writer);

/// An architecture of llama.cpp as a model type of transformers.
struct Architecture {
  std::string_view name;        // general.architecture
  std::string_view model_type;  // of config.json
  std::string_view epsilon = "rms_norm_eps";
  Result<void> (*finish)(ConfigWriter& writer) = nullptr;  // what is different; nullptr: nothing
  bool own_ropes = false;                                  // `finish` writes them
};

std::span<const Architecture> dense_architectures();
std::span<const Architecture> gemma_architectures();
std::span<const Architecture> plain_architectures();
std::span<const Architecture> expert_architectures();
std::span<const Architecture> recurrent_architectures();

}  // namespace lockstep::gguf
