#include "runtime/checkpoint/spec_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/checkpoint/idle_keys.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

constexpr Limits<int64_t> kHeads{1, int64_t{1} << 16};
constexpr Limits<int64_t> kLayers{1, int64_t{1} << 16};

Result<int64_t> read(const KeyReader& config, const Key<int64_t>& key, Limits<int64_t> limits) {
  if (key.otherwise && !config.has(key.name)) return *key.otherwise;
  return config.integer(key.name, limits);
}

/// Reads a key for which null and absent have different meanings.
Result<int64_t> read_nullable(const KeyReader& config, const Key<int64_t>& key, int64_t null, Limits<int64_t> limits) {
  return config.integer_or(key.name, config.is_null(key.name) ? null : key.otherwise.value_or(null), limits);
}

// ---- sizes and heads ----

Result<void> read_sizes(const KeyReader& config, const FamilyKeys& keys, ModelSpec& spec) {
  LOCKSTEP_TRY(spec.hidden_size, read(config, keys.hidden_size, kWidth));
  LOCKSTEP_TRY(spec.layers, read(config, keys.layers, kLayers));
  LOCKSTEP_TRY(spec.intermediate_size, read(config, keys.intermediate_size, kWidth));
  LOCKSTEP_TRY(spec.vocabulary, read(config, keys.vocabulary, kWidth));
  LOCKSTEP_TRY(spec.max_positions, read(config, keys.max_positions, kPositions));
  LOCKSTEP_TRY(spec.norm_epsilon, config.number_or(keys.norm_epsilon.name, *keys.norm_epsilon.otherwise, {1e-30, 1.0}));
  spec.embedding_size = spec.hidden_size;
  return ok();
}

Result<void> read_heads(const KeyReader& config, const FamilyKeys& keys, ModelSpec& spec) {
  LOCKSTEP_TRY(spec.query_heads, read(config, keys.query_heads, kHeads));
  LOCKSTEP_TRY(spec.key_value_heads, read_nullable(config, keys.key_value_heads, spec.query_heads, kHeads));
  if (spec.query_heads % spec.key_value_heads != 0) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/checkpoint] cannot use {}: {}: found {}, expected a divisor of the {} query "
                             "heads; correct the file",
                             config.origin(), keys.key_value_heads.name, spec.key_value_heads, spec.query_heads)};
  }
  const bool is_quotient = !config.has(keys.head_dim.name) && (!keys.head_dim.otherwise || config.is_null("head_dim"));
  if (is_quotient && spec.hidden_size % spec.query_heads != 0) {
    const std::string_view key = keys.head_dim.name.empty() ? keys.query_heads.name : keys.head_dim.name;
    return config.wrong(
        key, fmt::format("{}, because {} heads do not divide the hidden size of {}",
                         keys.head_dim.name.empty() ? "a divisor" : "a number", spec.query_heads, spec.hidden_size));
  }
  LOCKSTEP_TRY(spec.head_dim, read_nullable(config, keys.head_dim, spec.hidden_size / spec.query_heads, kWidth));
  spec.attention_scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  return ok();
}

// ---- activations ----

/// Activation functions by all their names in transformers (ACT2FN). Those of one group differ only in rounding.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kActivations = {
    {{"gelu", "gelu"},
     {"gelu_python", "gelu"},
     {"gelu_new", "gelu_tanh"},
     {"gelu_fast", "gelu_tanh"},
     {"gelu_accurate", "gelu_tanh"},
     {"gelu_pytorch_tanh", "gelu_tanh"},
     {"gelu_python_tanh", "gelu_tanh"},
     {"relu", "relu"},
     {"relu2", "squared_relu"},
     {"silu", "silu"},
     {"swish", "silu"}}};

Result<std::string> read_activation(const KeyReader& config, const Key<std::string_view>& key) {
  LOCKSTEP_TRY(const std::string name, config.text_or(key.name, *key.otherwise));
  std::string supported;
  for (const auto& [known, function] : kActivations) {
    if (known == name) return std::string(function);
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", known);
  }
  return unsupported(config, key.name, fmt::format("\"{}\"", name), fmt::format("one of: {}", supported));
}

// ---- data type and tokens ----

/// Files with quantised weights keep everything else as bfloat16 if they name no type.
Result<DType> read_dtype(const KeyReader& config) {
  const std::string_view key = either(config, "dtype", "torch_dtype");
  LOCKSTEP_TRY(const std::string name, config.text_or(key, config.has("quantization_config") ? "bfloat16" : "float32"));
  auto dtype = dtype_from_config_name(name);
  if (!dtype.has_value()) {
    return unsupported(config, key, fmt::format("\"{}\"", name), "float32, bfloat16 or float16");
  }
  return dtype;
}

/// Which layers have a window, according to the key `layer_types`.
Result<std::vector<bool>> read_layer_types(const KeyReader& config, int64_t layers) {
  LOCKSTEP_TRY(const json* const types, read_layer_list(config, "layer_types", layers));
  std::vector<bool> slides;
  for (const json& type : *types) {
    const bool is_full = type == "full_attention" || type == "attention";
    if (!is_full && type != "sliding_attention") {
      return unsupported(config, "layer_types", describe(type), "\"full_attention\" or \"sliding_attention\"");
    }
    slides.push_back(!is_full);
  }
  return slides;
}

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
    "alpha",           "llama_4_scaling_beta",
};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Result<void> require_known_rope_key(std::string_view key, const json& value, const KeyReader& rope) {
  if (value.is_null() || contains(kRopeKeys, key)) return ok();
  return unsupported(rope, key, describe(value), "only keys of ropes that this program knows");
}

Result<void> require_known_rope_keys(const json& keys, const KeyReader& rope) {
  for (const auto& [key, value] : keys.items()) LOCKSTEP_TRY_VOID(require_known_rope_key(key, value, rope));
  return ok();
}

}  // namespace

Error unsupported(const KeyReader& config, std::string_view key, std::string_view found, std::string_view supported) {
  return {ErrorKind::kUnsupported,
          fmt::format("[runtime/checkpoint] cannot run the model of {}: {}: found {}, expected {}; choose a model that "
                      "is supported",
                      config.origin(), key, found, supported)};
}

std::string_view either(const KeyReader& config, std::string_view preferred, std::string_view name) {
  return config.has(preferred) ? preferred : name;
}

Result<void> require_switch(const KeyReader& config, std::string_view key, bool expected) {
  LOCKSTEP_TRY(const bool found, config.boolean_or(key, expected));
  if (found != expected) return unsupported(config, key, fmt::format("{}", found), fmt::format("{}", expected));
  return ok();
}

Result<void> require_known_quantisation(const KeyReader& config, std::string_view model_type) {
  LOCKSTEP_TRY_VOID(config.object("compression_config"));
  LOCKSTEP_TRY(const auto quantisation, config.object("quantization_config"));
  if (!quantisation) return ok();
  LOCKSTEP_TRY(const std::string method, quantisation->text_or("quant_method", ""));
  if (method != "mxfp4" || model_type == "gpt_oss") return ok();
  return unsupported(config, "quantization_config", "quantised weights (\"mxfp4\")",
                     "mxfp4 only for gpt_oss; other models in gptq, awq, compressed-tensors, fp8 or elements");
}

Result<ModelSpec> read_family(const KeyReader& config, std::string_view model_type, const FamilyKeys& keys) {
  ModelSpec spec;
  spec.model_type = model_type;
  LOCKSTEP_TRY_VOID(read_sizes(config, keys, spec));
  LOCKSTEP_TRY_VOID(read_heads(config, keys, spec));
  LOCKSTEP_TRY(spec.activation, read_activation(config, keys.activation));
  LOCKSTEP_TRY(spec.tied_embeddings, config.boolean_or("tie_word_embeddings", keys.tied_embeddings));
  LOCKSTEP_TRY(spec.dtype, read_dtype(config));
  return spec;
}

Result<void> read_attention_bias(const KeyReader& config, bool otherwise, ModelSpec& spec) {
  LOCKSTEP_TRY(spec.attention_bias, config.boolean_or("attention_bias", otherwise));
  spec.attention_output_bias = spec.attention_bias;
  return ok();
}

Result<std::optional<int64_t>> read_window(const KeyReader& config, std::optional<int64_t> otherwise, bool in_use) {
  if (config.is_null("sliding_window") || !in_use) return std::optional<int64_t>();
  if (!config.has("sliding_window")) return otherwise;
  LOCKSTEP_TRY(const int64_t window, config.integer("sliding_window", kPositions));
  // transformers' cache then keeps all tokens, so that its answer depends on how it was cut
  if (window == 1) return unsupported(config, "sliding_window", "1", "2 tokens or more");
  return std::optional<int64_t>(window);
}

void slide_everywhere(std::optional<int64_t> window, ModelSpec& spec) {
  if (window) spec.windows.assign(static_cast<size_t>(spec.layers), *window);
}

Result<void> read_layer_windows(const KeyReader& config, std::optional<int64_t> window,
                                const std::function<bool(int64_t)>& slides, ModelSpec& spec) {
  std::vector<bool> sliding;
  if (config.has("layer_types")) {
    LOCKSTEP_TRY(sliding, read_layer_types(config, spec.layers));
  } else {
    for (int64_t layer = 0; layer < spec.layers; ++layer) sliding.push_back(slides(layer));
  }
  std::vector<int64_t> windows;
  bool any = false;
  for (const bool layer_slides : sliding) {
    windows.push_back(layer_slides ? window.value_or(0) : 0);
    any = any || layer_slides;
  }
  if (any && !window) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/checkpoint] cannot use {}: sliding_window: found no window in use, expected one "
                             "for the layers with sliding attention; correct the file",
                             config.origin())};
  }
  if (any) spec.windows = std::move(windows);
  return ok();
}

Result<const json*> read_layer_list(const KeyReader& config, std::string_view key, int64_t layers,
                                    std::string_view each) {
  const json* const list = config.find(key);
  if (list == nullptr || (list->is_array() && std::ssize(*list) == layers)) return list;
  return config.wrong(key, fmt::format("an array of {}, {}", layers, each));
}

Result<std::vector<size_t>> read_layer_kinds(const KeyReader& config, std::string_view key, int64_t layers,
                                             const std::array<std::string_view, 2>& kinds) {
  std::vector<size_t> found;
  LOCKSTEP_TRY(const json* const list, read_layer_list(config, key, layers));
  if (list == nullptr) return found;
  for (const json& value : *list) {
    if (value != kinds[0] && value != kinds[1]) {
      return unsupported(config, key, describe(value), fmt::format("\"{}\" or \"{}\"", kinds[0], kinds[1]));
    }
    found.push_back(value == kinds[0] ? 0 : 1);
  }
  return found;
}

Result<void> read_no_rope_layers(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(const int64_t interval, config.integer_or("no_rope_layer_interval", 4, kWidth));
  const json* list = config.find("no_rope_layers");
  if (list != nullptr && list->is_array() && list->empty()) {
    list = nullptr;
  } else {
    LOCKSTEP_TRY_VOID(read_layer_list(config, "no_rope_layers", spec.layers, "0 or 1 per layer"));
  }
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const json rotates = list != nullptr ? (*list)[static_cast<size_t>(layer)] : json((layer + 1) % interval != 0);
    const bool is_none = rotates == 0 || rotates == false;
    if (!is_none && rotates != 1 && rotates != true) return config.wrong("no_rope_layers", "0 or 1 per layer");
    if (is_none) spec.layers_without_rope.push_back(layer);
  }
  return ok();
}

Result<void> read_exaone_windows(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(const auto window, read_window(config, 4096));
  int64_t pattern = 4;  // published files have a text instead, beside layer_types
  if (!config.has("layer_types")) {
    LOCKSTEP_TRY(pattern, config.integer_or("sliding_window_pattern", pattern, kWidth));
  }
  LOCKSTEP_TRY_VOID(read_layer_windows(
      config, window, [&](int64_t layer) { return window && (layer + 1) % pattern != 0; }, spec));
  for (int64_t layer = 0; window && layer < spec.layers; ++layer) {
    if (spec.window(layer) == 0) spec.layers_without_rope.push_back(layer);
  }
  return ok();
}

Result<void> require_known_keys(const nlohmann::json& document, const KeyReader& config, const KeyReader::Names& read,
                                std::span<const std::string_view> idle) {
  for (const auto& [key, value] : document.items()) {
    if (value.is_null() || read.contains(key) || contains(idle, key) || contains(kIdleKeys, key)) continue;
    return unsupported(
        config, key, describe(value),
        "only keys that this program knows, because it may change results (take it out of the file if not)");
  }
  for (const std::string_view rope : {"rope_scaling", "rope_parameters"}) {
    LOCKSTEP_TRY(const auto object, config.object(rope));
    if (!object) continue;
    for (const auto& [key, value] : config.find(rope)->items()) {
      if (contains(idle, key)) {  // the rope of one kind of layers, or a key without effect
        if (value.is_object()) {
          LOCKSTEP_TRY_VOID(require_known_rope_keys(value, *object));
        }
      } else {
        LOCKSTEP_TRY_VOID(require_known_rope_key(key, value, *object));
      }
    }
  }
  return ok();
}

Result<ModelSpec> read_text_part(const KeyReader& config, bool tied,
                                 const std::function<Result<ModelSpec>(const KeyReader&)>& read,
                                 std::span<const std::string_view> idle) {
  LOCKSTEP_TRY(const auto part, config.object("text_config"));
  if (!part) return config.wrong("text_config", "an object");
  json text = *config.find("text_config");
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    if (const json* value = config.find(key)) text[std::string(key)] = *value;
  }
  LOCKSTEP_TRY(text["tie_word_embeddings"], config.boolean_or("tie_word_embeddings", tied));
  KeyReader::Names asked{"model_type"};
  const KeyReader reader(text, part->origin(), &asked);
  LOCKSTEP_TRY_VOID(require_known_quantisation(reader, "text_config"));
  LOCKSTEP_TRY_VOID(require_switch(reader, "is_encoder_decoder", false));
  LOCKSTEP_TRY(ModelSpec spec, read(reader));
  LOCKSTEP_TRY_VOID(require_known_keys(text, reader, asked, idle));
  return spec;
}

}  // namespace lockstep::checkpoint
