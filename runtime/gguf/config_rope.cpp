// The rotary embedding of a GGUF model, in the notation of config.json.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "runtime/gguf/config_writer.h"
#include "runtime/gguf/metadata.h"

namespace lockstep::gguf {
namespace {

using nlohmann::json;

constexpr std::string_view kFactors = "rope_freqs.weight";
constexpr std::string_view kShortFactors = "rope_factors_short.weight", kLongFactors = "rope_factors_long.weight";
constexpr double kTolerance = 1e-4;  // of factors computed in float32

/// The stretching of Llama 3.1, from which llama.cpp computes the tensor of factors.
struct Stretching {
  double factor = 8.0;
  double low = 1.0;
  double high = 4.0;
  double original = 8192.0;
};

/// The factor on the wavelength of pair `i`.
double factor_of(const Stretching& stretching, double theta, size_t i, size_t pairs) {
  const double wave = 2 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / static_cast<double>(pairs));
  if (wave < stretching.original / stretching.high) return 1.0;
  if (wave > stretching.original / stretching.low) return stretching.factor;
  const double smooth = (stretching.original / wave - stretching.low) / (stretching.high - stretching.low);
  return 1.0 / ((1.0 - smooth) / stretching.factor + smooth);
}

bool gives(const Stretching& stretching, double theta, const std::vector<float>& factors) {
  for (size_t i = 0; i < factors.size(); ++i) {
    const double expected = factor_of(stretching, theta, i, factors.size());
    if (!(std::abs(static_cast<double>(factors[i]) - expected) <= kTolerance * expected)) return false;
  }
  return true;
}

/// Finds the stretching that gives `factors`, among powers of two as the original maximum.
bool find_stretching(double theta, const std::vector<float>& factors, Stretching& found) {
  if (factors.empty()) return false;
  for (const double high : {4.0, 2.0, 8.0, 16.0, 1.0}) {
    for (const double low : {1.0, 2.0, 4.0}) {
      const bool is_possible = low < high || (low == 1.0 && high == 1.0);  // Llama 4: no wavelengths between
      for (double original = 8; original <= 1 << 24 && is_possible; original *= 2) {
        found = {std::round(static_cast<double>(factors.back()) * 1e4) / 1e4, low, high, original};
        if (gives(found, theta, factors)) return true;
      }
    }
  }
  return false;
}

Result<json> stretched(const ConfigWriter& writer) {
  LOCKSTEP_TRY(const std::vector<float> factors, writer.floats(kFactors));
  LOCKSTEP_TRY(const double theta, writer.number_or("rope.freq_base", 10000.0));
  Stretching found;
  if (!find_stretching(theta, factors, found)) {
    return writer.unsupported(
        fmt::format("found factors in {} that no stretching as in Llama 3 gives, expected those", kFactors));
  }
  return json{{"rope_type", "llama3"},
              {"factor", found.factor},
              {"low_freq_factor", found.low},
              {"high_freq_factor", found.high},
              {"original_max_position_embeddings", static_cast<int64_t>(found.original)}};
}

/// Phi-3's divisors for short and long texts.
Result<json> divided(const ConfigWriter& writer) {
  LOCKSTEP_TRY(const std::vector<float> short_factors, writer.floats(kShortFactors));
  LOCKSTEP_TRY(const std::vector<float> long_factors, writer.floats(kLongFactors));
  json rope = {{"rope_type", "longrope"}, {"short_factor", json::array()}, {"long_factor", json::array()}};
  for (const float factor : short_factors) rope["short_factor"].push_back(shortest(factor));
  for (const float factor : long_factors) rope["long_factor"].push_back(shortest(factor));
  return rope;
}

Result<json> yarn(const ConfigWriter& writer) {
  json rope = {{"rope_type", "yarn"}};
  constexpr KeyPair kKeys[] = {{"rope.scaling.factor", "factor"},
                               {"rope.scaling.original_context_length", "original_max_position_embeddings"},
                               {"rope.scaling.yarn_beta_fast", "beta_fast"},
                               {"rope.scaling.yarn_beta_slow", "beta_slow"},
                               {"rope.scaling.yarn_attn_factor", "attention_factor"}};
  for (const KeyPair& pair : kKeys) {
    LOCKSTEP_TRY(json value, writer.value(pair.key));
    if (!value.is_null()) rope[std::string(pair.name)] = std::move(value);
  }
  return rope;
}

}  // namespace

Result<void> write_rope_scaling(ConfigWriter& writer) {
  LOCKSTEP_TRY(const json type, writer.value("rope.scaling.type"));
  LOCKSTEP_TRY(const double older, writer.number_or("rope.scale_linear", 1.0));
  LOCKSTEP_TRY(const double factor, writer.number_or("rope.scaling.factor", older));
  json& rope = writer.config()["rope_scaling"];
  if (writer.has_tensor(kFactors)) {
    LOCKSTEP_TRY(rope, stretched(writer));
  } else if (writer.has_tensor(kLongFactors)) {
    LOCKSTEP_TRY(rope, divided(writer));
    LOCKSTEP_TRY(json original, writer.value("rope.scaling.original_context_length"));
    if (!original.is_null()) writer.config()["original_max_position_embeddings"] = std::move(original);
  } else if (type == "yarn") {
    LOCKSTEP_TRY(rope, yarn(writer));
  } else if (type == "linear" || (type.is_null() && factor != 1.0)) {
    if (factor != 1.0) rope = {{"rope_type", "linear"}, {"factor", factor}};
  } else if (!type.is_null() && type != "none") {
    return writer.unsupported(fmt::format("found {} {}, expected none, linear, yarn or longrope with its factors",
                                          writer.full("rope.scaling.type"), type.dump()));
  }
  if (rope.is_null()) writer.erase("rope_scaling");
  return ok();
}

void write_growing_rope(ConfigWriter& writer, const json& beta, double mscale) {
  json& config = writer.config();
  json rope = config.value("rope_scaling", json::object());
  rope["mscale"] = rope["mscale_all_dim"] = mscale;
  rope["llama_4_scaling_beta"] = beta;
  rope["rope_theta"] = config.value("rope_theta", json(1e6));
  config["rope_parameters"] = std::move(rope);
  writer.erase("rope_scaling");
  writer.erase("rope_theta");
}

Result<void> write_rotated_part(ConfigWriter& writer, std::string_view name) {
  LOCKSTEP_TRY(const int64_t hidden, writer.integer("embedding_length"));
  LOCKSTEP_TRY(const int64_t heads, writer.integer("attention.head_count"));
  if (heads < 1) return writer.wrong("attention.head_count", fmt::format("found {}, expected at least 1", heads));
  LOCKSTEP_TRY(const int64_t head, writer.integer_or("attention.key_length", hidden / heads));
  LOCKSTEP_TRY(const int64_t rotated, writer.integer_or("rope.dimension_count", head));
  if (rotated < 1 || rotated > head) {
    return writer.wrong("rope.dimension_count", fmt::format("found {}, expected 1 to {}", rotated, head));
  }
  writer.config()[std::string(name)] = static_cast<double>(rotated) / static_cast<double>(head);
  return ok();
}

Result<void> write_layer_types(ConfigWriter& writer) {
  LOCKSTEP_TRY(const json slides, writer.value("attention.sliding_window_pattern"));
  if (!slides.is_array()) return ok();
  json types = json::array();
  for (const json& value : slides) {
    const bool has_window = value.is_boolean() ? value.get<bool>() : value != 0;
    types.push_back(has_window ? "sliding_attention" : "full_attention");
  }
  writer.config()["layer_types"] = std::move(types);
  return ok();
}

}  // namespace lockstep::gguf
