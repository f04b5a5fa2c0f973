#include "runtime/checkpoint/model_spec.h"

#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "runtime/checkpoint/json_document.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = int64_t{64} << 20;

// Generous bounds that keep every product of two of them inside 64 bits.
constexpr Limits<int64_t> kWidth{1, int64_t{1} << 24};
constexpr Limits<int64_t> kHeads{1, int64_t{1} << 16};
constexpr Limits<int64_t> kLayers{1, int64_t{1} << 16};
constexpr Limits<int64_t> kPositions{1, (int64_t{1} << 31) - 1};
constexpr Limits<double> kPositive{1e-6, 1e12};

Error unsupported(const KeyReader& config, std::string_view key, std::string_view found, std::string_view supported) {
  return {ErrorKind::kUnsupported,
          fmt::format("[runtime/checkpoint] cannot run the model of {}: {}: found {}, expected {}; choose a model that "
                      "is supported",
                      config.origin(), key, found, supported)};
}

// ---- rotary embeddings ----

constexpr std::array<std::pair<std::string_view, RopeSpec::Kind>, 4> kRopeKinds = {
    {{"default", RopeSpec::Kind::kDefault},
     {"linear", RopeSpec::Kind::kLinear},
     {"llama3", RopeSpec::Kind::kLlama3},
     {"yarn", RopeSpec::Kind::kYarn}}};

Result<RopeSpec::Kind> read_rope_kind(const KeyReader& rope) {
  LOCKSTEP_TRY(const std::string older, rope.text_or("type", "default"));
  LOCKSTEP_TRY(const std::string name, rope.text_or("rope_type", older));
  for (const auto& [known, kind] : kRopeKinds) {
    if (known == name) return kind;
  }
  return unsupported(rope, "rope_type", fmt::format("\"{}\"", name), "default, linear, llama3 or yarn");
}

Result<void> read_llama3(const KeyReader& rope, RopeSpec& spec) {
  LOCKSTEP_TRY(spec.low_frequency_factor, rope.number("low_freq_factor", kPositive));
  LOCKSTEP_TRY(spec.high_frequency_factor, rope.number("high_freq_factor", kPositive));
  if (spec.high_frequency_factor <= spec.low_frequency_factor) {
    return rope.wrong("high_freq_factor", fmt::format("more than low_freq_factor ({})", spec.low_frequency_factor));
  }
  return ok();
}

Result<std::optional<double>> read_optional(const KeyReader& rope, std::string_view key, Limits<double> limits) {
  if (!rope.has(key)) return std::optional<double>();
  LOCKSTEP_TRY(const double value, rope.number(key, limits));
  return std::optional<double>(value);
}

Result<void> read_yarn(const KeyReader& rope, RopeSpec& spec) {
  constexpr Limits<double> kNotNegative{0.0, 1e12};
  LOCKSTEP_TRY(spec.beta_fast, rope.number_or("beta_fast", 0.0, kNotNegative));
  LOCKSTEP_TRY(spec.beta_slow, rope.number_or("beta_slow", 0.0, kNotNegative));
  if (spec.beta_fast == 0.0) spec.beta_fast = 32.0;  // zero means the default, as in transformers
  if (spec.beta_slow == 0.0) spec.beta_slow = 1.0;
  if (spec.beta_fast < spec.beta_slow) {
    return rope.wrong("beta_fast", fmt::format("at least beta_slow ({})", spec.beta_slow));
  }
  LOCKSTEP_TRY(spec.truncate, rope.boolean_or("truncate", true));
  LOCKSTEP_TRY(spec.attention_factor, read_optional(rope, "attention_factor", kPositive));
  LOCKSTEP_TRY(spec.mscale, read_optional(rope, "mscale", kNotNegative));
  LOCKSTEP_TRY(spec.mscale_all_dim, read_optional(rope, "mscale_all_dim", kNotNegative));
  return ok();
}

/// The factor by which positions are stretched. YaRN may leave it to the ratio of the two maxima.
Result<double> read_factor(const KeyReader& rope, const RopeSpec& spec, int64_t max_positions) {
  if (spec.kind == RopeSpec::Kind::kYarn && !rope.has("factor")) {
    return static_cast<double>(max_positions) / static_cast<double>(*spec.original_max_positions);
  }
  return rope.number("factor", kPositive);
}

/// Both spellings: `rope_scaling` (and `rope_theta` beside it) wins over `rope_parameters`; a theta inside the object
/// wins over the one outside.
Result<RopeSpec> read_rope(const KeyReader& config, int64_t max_positions) {
  constexpr Limits<double> kTheta{1.0 + 1e-6, 1e15};
  RopeSpec spec;
  LOCKSTEP_TRY(spec.theta, config.number_or("rope_theta", spec.theta, kTheta));
  LOCKSTEP_TRY(auto rope, config.object("rope_scaling"));
  if (!rope || config.find("rope_scaling")->empty()) {
    LOCKSTEP_TRY(rope, config.object("rope_parameters"));
  }
  LOCKSTEP_TRY(double rotated, config.number_or("partial_rotary_factor", 1.0, {0.0, 1.0}));
  if (rope) {
    LOCKSTEP_TRY(rotated, rope->number_or("partial_rotary_factor", rotated, {0.0, 1.0}));
  }
  if (rotated != 1.0) return unsupported(config, "partial_rotary_factor", fmt::format("{}", rotated), "1");
  if (!rope) return spec;

  LOCKSTEP_TRY(spec.theta, rope->number_or("rope_theta", spec.theta, kTheta));
  LOCKSTEP_TRY(spec.kind, read_rope_kind(*rope));
  if (spec.kind == RopeSpec::Kind::kLlama3 || spec.kind == RopeSpec::Kind::kYarn) {
    const KeyReader& holder = config.has("original_max_position_embeddings") ? config : *rope;
    LOCKSTEP_TRY(spec.original_max_positions,
                 holder.integer_or("original_max_position_embeddings", max_positions, kPositions));
  }
  if (spec.kind != RopeSpec::Kind::kDefault) {
    LOCKSTEP_TRY(spec.factor, read_factor(*rope, spec, max_positions));
  }
  if (spec.kind == RopeSpec::Kind::kLlama3) LOCKSTEP_TRY_VOID(read_llama3(*rope, spec));
  if (spec.kind == RopeSpec::Kind::kYarn) LOCKSTEP_TRY_VOID(read_yarn(*rope, spec));
  return spec;
}

// ---- what every decoder has ----

Result<DType> read_dtype(const KeyReader& config) {
  const std::string_view key = config.has("dtype") ? "dtype" : "torch_dtype";
  LOCKSTEP_TRY(const std::string name, config.text_or(key, "float32"));
  auto dtype = dtype_from_config_name(name);
  if (!dtype.has_value()) {
    return unsupported(config, key, fmt::format("\"{}\"", name), "float32, bfloat16 or float16");
  }
  return dtype;
}

/// One token id or a list of them, inside the vocabulary. Absent means `fallback`, null means none.
Result<std::vector<int32_t>> read_ids(const KeyReader& config, std::string_view key, int64_t vocabulary,
                                      std::vector<int32_t> fallback) {
  if (config.is_null(key)) return std::vector<int32_t>();
  const json* value = config.find(key);
  if (value == nullptr) {
    std::erase_if(fallback, [vocabulary](int32_t id) { return id >= vocabulary; });
    return fallback;
  }
  const json list = value->is_array() ? *value : json::array({*value});
  std::vector<int32_t> ids;
  for (const json& id : list) {
    const bool valid = id.is_number_integer() && id >= 0 && id < vocabulary;
    if (!valid) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[runtime/checkpoint] cannot use {}: {}: found {}, expected token ids from 0 to {}; "
                               "correct the file",
                               config.origin(), key, describe(id), vocabulary - 1)};
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

/// A single id. Absent means `fallback`; null, and -1 as older files spell it, mean none.
Result<std::optional<int32_t>> read_id(const KeyReader& config, std::string_view key, int64_t vocabulary,
                                       std::optional<int32_t> fallback) {
  if (config.is_null(key)) return std::optional<int32_t>();
  if (!config.has(key)) return fallback && *fallback < vocabulary ? fallback : std::nullopt;
  LOCKSTEP_TRY(const int64_t id, config.integer(key, {-1, vocabulary - 1}));
  return id < 0 ? std::optional<int32_t>() : std::optional<int32_t>(static_cast<int32_t>(id));
}

Result<void> read_sizes(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(spec.hidden_size, config.integer("hidden_size", kWidth));
  LOCKSTEP_TRY(spec.layers, config.integer("num_hidden_layers", kLayers));
  LOCKSTEP_TRY(spec.intermediate_size, config.integer("intermediate_size", kWidth));
  LOCKSTEP_TRY(spec.vocabulary, config.integer("vocab_size", kWidth));
  LOCKSTEP_TRY(spec.max_positions, config.integer_or("max_position_embeddings", 2048, kPositions));
  LOCKSTEP_TRY(spec.norm_epsilon, config.number_or("rms_norm_eps", 1e-6, {1e-30, 1.0}));
  return ok();
}

Result<void> read_heads(const KeyReader& config, ModelSpec& spec) {
  LOCKSTEP_TRY(spec.query_heads, config.integer("num_attention_heads", kHeads));
  LOCKSTEP_TRY(spec.key_value_heads, config.integer_or("num_key_value_heads", spec.query_heads, kHeads));
  if (spec.query_heads % spec.key_value_heads != 0) {
    return config.wrong("num_key_value_heads", fmt::format("a divisor of the {} query heads", spec.query_heads));
  }
  if (!config.has("head_dim") && spec.hidden_size % spec.query_heads != 0) {
    return config.wrong("head_dim", fmt::format("a number, because {} heads do not divide the hidden size of {}",
                                                spec.query_heads, spec.hidden_size));
  }
  LOCKSTEP_TRY(spec.head_dim, config.integer_or("head_dim", spec.hidden_size / spec.query_heads, kWidth));
  if (spec.head_dim % 2 != 0) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/checkpoint] cannot use {}: head_dim: found {}, expected an even number (rotary "
                             "embeddings turn pairs); correct the file",
                             config.origin(), spec.head_dim)};
  }
  return ok();
}

Result<void> read_tokens(const KeyReader& config, ModelSpec& spec, std::vector<int32_t> eos_default,
                         std::optional<int32_t> bos_default) {
  LOCKSTEP_TRY(spec.eos_ids, read_ids(config, "eos_token_id", spec.vocabulary, std::move(eos_default)));
  LOCKSTEP_TRY(spec.bos_id, read_id(config, "bos_token_id", spec.vocabulary, bos_default));
  LOCKSTEP_TRY(spec.pad_id, read_id(config, "pad_token_id", spec.vocabulary, std::nullopt));
  return ok();
}

// ---- families: keys, defaults and aliases of each model type ----

Result<ModelSpec> read_llama(const KeyReader& config) {
  ModelSpec spec;
  spec.model_type = "llama";
  LOCKSTEP_TRY_VOID(read_sizes(config, spec));
  LOCKSTEP_TRY_VOID(read_heads(config, spec));
  LOCKSTEP_TRY(const std::string activation, config.text_or("hidden_act", "silu"));
  if (activation != "silu" && activation != "swish") {  // two names of one function
    return unsupported(config, "hidden_act", fmt::format("\"{}\"", activation), "silu");
  }
  spec.activation = "silu";
  LOCKSTEP_TRY(spec.attention_bias, config.boolean_or("attention_bias", false));
  LOCKSTEP_TRY(spec.mlp_bias, config.boolean_or("mlp_bias", false));
  LOCKSTEP_TRY(spec.tied_embeddings, config.boolean_or("tie_word_embeddings", false));
  LOCKSTEP_TRY(spec.rope, read_rope(config, spec.max_positions));
  LOCKSTEP_TRY(spec.dtype, read_dtype(config));
  LOCKSTEP_TRY_VOID(read_tokens(config, spec, /*eos_default=*/{2}, /*bos_default=*/1));
  return spec;
}

struct ModelType {
  std::string_view name;
  Result<ModelSpec> (*read)(const KeyReader&);
};

constexpr std::array<ModelType, 1> kModelTypes = {{{"llama", read_llama}}};

}  // namespace

std::vector<std::string> supported_model_types() {
  std::vector<std::string> names;
  for (const ModelType& type : kModelTypes) names.emplace_back(type.name);
  return names;
}

Result<ModelSpec> parse_spec(std::string_view config, std::string_view origin) {
  LOCKSTEP_TRY(const json document, parse_json_object(config, origin));
  const KeyReader reader(document, std::string(origin));
  LOCKSTEP_TRY(const std::string name, reader.text("model_type"));
  for (const ModelType& type : kModelTypes) {
    if (type.name != name) continue;
    if (reader.has("quantization_config")) {
      return unsupported(reader, "quantization_config", "quantised weights", "float32, bfloat16 or float16 weights");
    }
    return type.read(reader);
  }
  return unsupported(reader, "model_type", fmt::format("\"{}\"", name),
                     fmt::format("one of: {}", fmt::join(supported_model_types(), ", ")));
}

Result<ModelSpec> read_spec(const std::filesystem::path& config_json) {
  LOCKSTEP_TRY(const std::string text, read_text_file(config_json, kMaxConfigBytes));
  return parse_spec(text, config_json.string());
}

}  // namespace lockstep::checkpoint
