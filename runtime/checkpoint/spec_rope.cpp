// The rotary part of a config.json (kinds, their keys and notations), then the inverse frequencies that follow from it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using Kind = RopeSpec::Kind;

constexpr std::string_view kOriginalMaximum = "original_max_position_embeddings";
constexpr Limits<int64_t> kOriginal{2, kPositions.most};  // with 1, logarithms would be 0

struct KindName {
  std::string_view name;
  Kind kind;
};

constexpr std::array<KindName, 5> kKinds = {{{"default", Kind::kDefault},
                                             {"linear", Kind::kLinear},
                                             {"llama3", Kind::kLlama3},
                                             {"yarn", Kind::kYarn},
                                             {"proportional", Kind::kProportional}}};

/// Phi-3's kinds; two older names mean longrope.
constexpr std::array<KindName, 4> kLongropeKinds = {
    {{"default", Kind::kDefault}, {"longrope", Kind::kLongrope}, {"su", Kind::kLongrope}, {"yarn", Kind::kLongrope}}};

Result<Kind> read_kind(const KeyReader& rope, const RopeKeys& keys) {
  LOCKSTEP_TRY(const std::string older, rope.text_or("type", "default"));
  LOCKSTEP_TRY(const std::string name, rope.text_or("rope_type", older));
  const std::span<const KindName> kinds =
      keys.longrope ? std::span<const KindName>(kLongropeKinds) : std::span<const KindName>(kKinds);
  for (const KindName& known : kinds) {
    if (known.name == name) return known.kind;
  }
  return unsupported(rope, "rope_type", fmt::format("\"{}\"", name),
                     keys.longrope ? "default or longrope" : "default, linear, llama3, yarn or proportional");
}

Result<void> read_llama3(const KeyReader& rope, RopeSpec& spec) {
  LOCKSTEP_TRY(spec.low_frequency_factor, rope.number("low_freq_factor", kPositive));
  LOCKSTEP_TRY(spec.high_frequency_factor, rope.number("high_freq_factor", kPositive));
  if (spec.high_frequency_factor < spec.low_frequency_factor) {
    return rope.wrong("high_freq_factor", fmt::format("at least low_freq_factor ({})", spec.low_frequency_factor));
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

/// One divisor per frequency.
Result<std::vector<double>> read_divisors(const KeyReader& rope, std::string_view key, int64_t frequencies) {
  const json* list = rope.find(key);
  std::vector<double> divisors;
  if (list != nullptr && list->is_array()) {
    for (const json& value : *list) {
      const double divisor = value.is_number() ? value.get<double>() : 0.0;
      if (divisor >= kPositive.least && divisor <= kPositive.most) divisors.push_back(divisor);
    }
  }
  const auto expected = static_cast<size_t>(frequencies);
  if (divisors.size() != expected || list->size() != expected) {
    return rope.wrong(key, fmt::format("an array of {} positive numbers, one for each pair that turns", frequencies));
  }
  return divisors;
}

Result<void> read_longrope(const KeyReader& rope, RopeSpec& spec) {
  LOCKSTEP_TRY(spec.short_factors, read_divisors(rope, "short_factor", spec.rotated / 2));
  LOCKSTEP_TRY(spec.long_factors, read_divisors(rope, "long_factor", spec.rotated / 2));
  LOCKSTEP_TRY(spec.attention_factor, read_optional(rope, "attention_factor", kPositive));
  return ok();
}

/// The factor by which positions are stretched. For YaRN and longrope it defaults to the ratio of the two maxima.
Result<double> read_factor(const KeyReader& rope, const RopeSpec& spec, int64_t max_positions) {
  if (spec.kind != Kind::kLinear && spec.kind != Kind::kLlama3 && !rope.has("factor")) {
    return static_cast<double>(max_positions) / static_cast<double>(*spec.original_max_positions);
  }
  return rope.number("factor", kPositive);
}

/// The maximum position of the original training; the top-level key overrides the object's.
Result<int64_t> original_maximum_of(const KeyReader& config, const KeyReader& rope, const RopeKeys& keys,
                                    int64_t max_positions) {
  if (config.has(kOriginalMaximum) || keys.original_max_positions) {
    return read_original_maximum(config, keys.original_max_positions.value_or(max_positions));
  }
  return rope.integer_or(kOriginalMaximum, max_positions, kOriginal);
}

/// The number of rotated elements of a head: the fraction `part`, rounded down.
Result<int64_t> rotated_elements(const KeyReader& config, std::string_view key, double part, const ModelSpec& spec,
                                 bool may_be_partial) {
  if (part != 1.0 && !may_be_partial) return unsupported(config, key, fmt::format("{}", part), "1");
  const auto rotated = static_cast<int64_t>(static_cast<double>(spec.head_dim) * part);
  if (rotated < 2 || rotated % 2 != 0) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/checkpoint] cannot use {}: {}: found {}, expected an even number (rotary "
                             "embeddings turn pairs); correct the file",
                             config.origin(), part == 1.0 ? "head_dim" : key,
                             part == 1.0 ? fmt::format("{}", spec.head_dim)
                                         : fmt::format("{} ({} elements of {})", part, rotated, spec.head_dim))};
  }
  return rotated;
}

/// Reads the kind's keys other than theta.
Result<void> read_kind_keys(const KeyReader& config, const KeyReader& rope, const RopeKeys& keys, int64_t max_positions,
                            RopeSpec& spec) {
  if (spec.kind == Kind::kDefault) return ok();
  if (spec.kind == Kind::kProportional) {
    LOCKSTEP_TRY(spec.factor, rope.number_or("factor", 1.0, kPositive));
    return ok();
  }
  if (spec.kind != Kind::kLinear) {
    LOCKSTEP_TRY(spec.original_max_positions, original_maximum_of(config, rope, keys, max_positions));
  }
  LOCKSTEP_TRY(spec.factor, read_factor(rope, spec, max_positions));
  if (spec.kind == Kind::kLlama3) return read_llama3(rope, spec);
  if (spec.kind == Kind::kYarn) return read_yarn(rope, spec);
  if (spec.kind == Kind::kLongrope) return read_longrope(rope, spec);
  return ok();
}

}  // namespace

Result<std::string_view> rope_key(const KeyReader& config) {
  constexpr std::string_view kScaling = "rope_scaling", kParameters = "rope_parameters";
  LOCKSTEP_TRY(const auto scaling, config.object(kScaling));
  return scaling && !config.find(kScaling)->empty() ? kScaling : kParameters;
}

Result<int64_t> read_original_maximum(const KeyReader& config, int64_t otherwise) {
  return config.integer_or(kOriginalMaximum, otherwise, kOriginal);
}

Result<RopeSpec> read_rope(const KeyReader& config, const ModelSpec& spec, const RopeKeys& keys) {
  constexpr Limits<double> kTheta{1.0 + 1e-6, 1e15};
  constexpr Limits<double> kPart{0.0, 1.0};
  RopeSpec result;
  LOCKSTEP_TRY(result.theta, config.number_or(keys.theta.name, *keys.theta.otherwise, kTheta));
  LOCKSTEP_TRY(double part, config.number_or(keys.rotated.name, *keys.rotated.otherwise, kPart));
  if (config.is_null(keys.rotated.name) && *keys.rotated.otherwise != 1.0) {
    return config.wrong(keys.rotated.name, "a number");  // transformers rotates the whole head, or fails
  }
  LOCKSTEP_TRY(const std::string_view object, rope_key(config));
  LOCKSTEP_TRY(const auto rope, config.object(object));
  if (rope) {
    LOCKSTEP_TRY(result.theta, rope->number_or("rope_theta", result.theta, kTheta));
    LOCKSTEP_TRY(part, rope->number_or("partial_rotary_factor", part, kPart));
    LOCKSTEP_TRY(result.kind, read_kind(*rope, keys));
    if (!keys.scales_queries && rope->has("llama_4_scaling_beta")) {
      return unsupported(*rope, "llama_4_scaling_beta", describe(*rope->find("llama_4_scaling_beta")), "none");
    }
  }
  const bool is_proportional = result.kind == Kind::kProportional;  // all elements rotate, some with the frequency 0
  if (is_proportional) result.turning = static_cast<int64_t>(part * static_cast<double>(spec.head_dim) / 2) * 2;
  LOCKSTEP_TRY(result.rotated,
               rotated_elements(config, keys.rotated.name, is_proportional ? 1.0 : part, spec, keys.partial));
  if (rope) LOCKSTEP_TRY_VOID(read_kind_keys(config, *rope, keys, spec.max_positions, result));
  return result;
}

Result<void> read_growing_rope(const KeyReader& config, json rope_parameters, ModelSpec& spec) {
  const auto type = rope_parameters.find("rope_type");
  if (config.has(kOriginalMaximum) && type != rope_parameters.end() && *type == "yarn") {
    rope_parameters[std::string(kOriginalMaximum)] = *config.find(kOriginalMaximum);
  }
  const json flat = {{"rope_parameters", std::move(rope_parameters)}};
  const KeyReader reader(flat, config.origin());
  LOCKSTEP_TRY(spec.rope, read_rope(reader, spec, {.scales_queries = true}));
  LOCKSTEP_TRY(const auto rope, reader.object("rope_parameters"));
  LOCKSTEP_TRY(spec.query_scaling.beta, rope->number("llama_4_scaling_beta", {0.0, 1e6}));
  LOCKSTEP_TRY(spec.query_scaling.every, rope->integer("original_max_position_embeddings", kPositions));
  return ok();
}

Result<RopeSpec> read_layer_rope(const KeyReader& config, const ModelSpec& spec, std::string_view layers,
                                 const json* rope_scaling, Key<double> theta) {
  json rope = json::object();
  LOCKSTEP_TRY(const auto nested, config.object("rope_parameters"));
  if (nested) {
    LOCKSTEP_TRY(const auto own, nested->object(layers));
    if (own) rope = *nested->find(layers);
  }
  if (rope_scaling != nullptr) {
    if (rope_scaling->contains("type") && !rope_scaling->contains("rope_type")) {
      return unsupported(config, "rope_scaling", "type", "rope_type: transformers does not read the older key here");
    }
    rope.update(*rope_scaling);
  }
  rope.erase("truncate");  // transformers reads it outside the ropes of layers alone
  json flat = {{"rope_parameters", std::move(rope)}};
  if (const json* beside = config.find(theta.name)) flat[std::string(theta.name)] = *beside;
  const KeyReader reader(flat, fmt::format("{}: {}", config.origin(), layers));
  return read_rope(reader, spec, {.theta = theta});
}

// ---- The table. It uses transformers' float32 arithmetic and order of operations, so that angles at long positions
// match. Powers are rounded once from double; transformers' vectorised power may differ by one unit in the last place.

namespace {

/// theta^(2i / rotated), f32 [rotated / 2].
std::vector<float> wavelengths(const RopeSpec& rope) {
  std::vector<float> powers;
  const auto base = static_cast<double>(static_cast<float>(rope.theta));
  for (int64_t i = 0; i < rope.rotated; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(rope.rotated);
    powers.push_back(static_cast<float>(std::pow(base, static_cast<double>(exponent))));
  }
  return powers;
}

std::vector<float> plain_frequencies(const RopeSpec& rope) {
  std::vector<float> frequencies = wavelengths(rope);
  for (float& f : frequencies) f = 1.0f / f;
  return frequencies;
}

std::vector<float> linear_frequencies(const RopeSpec& rope) {
  std::vector<float> frequencies = plain_frequencies(rope);
  for (float& f : frequencies) f /= static_cast<float>(rope.factor);
  return frequencies;
}

/// Gemma 4: the first pairs of the rotated elements turn, as in a rope of all of them.
std::vector<float> proportional_frequencies(const RopeSpec& rope) {
  std::vector<float> frequencies = linear_frequencies(rope);
  std::fill(frequencies.begin() + rope.turning / 2, frequencies.end(), 0.0f);
  return frequencies;
}

/// Llama 3.1: short wavelengths stay, long ones are stretched by the factor, those between are blended.
std::vector<float> llama3_frequencies(const RopeSpec& rope, double original) {
  const auto factor = static_cast<float>(rope.factor);
  const auto longest_kept = static_cast<float>(original / rope.high_frequency_factor);
  const auto shortest_stretched = static_cast<float>(original / rope.low_frequency_factor);
  const auto band = static_cast<float>(rope.high_frequency_factor - rope.low_frequency_factor);
  std::vector<float> frequencies = plain_frequencies(rope);
  for (float& f : frequencies) {
    const float wave = (1.0f / f) * static_cast<float>(2 * std::numbers::pi);
    if (wave > shortest_stretched) {
      f = f / factor;
    } else if (wave >= longest_kept && band > 0.0f) {
      const float turns = (1.0f / wave) * static_cast<float>(original);
      const float smooth = (turns - static_cast<float>(rope.low_frequency_factor)) / band;
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
  return frequencies;
}

/// The (fractional) dimension with `rotations` full turns within the original positions.
double correction_dimension(const RopeSpec& rope, double original, double rotations) {
  const auto dim = static_cast<double>(rope.rotated);
  return dim * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
}

/// YaRN (arXiv 2309.00071): stretched and plain frequencies, blended along a ramp over the dimensions.
std::vector<float> yarn_frequencies(const RopeSpec& rope, double original) {
  double low = correction_dimension(rope, original, rope.beta_fast);
  double high = correction_dimension(rope, original, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotated - 1));
  if (low == high) high += 0.001;
  std::vector<float> frequencies = wavelengths(rope);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float position = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float keep = 1.0f - std::clamp(position, 0.0f, 1.0f);
    const float stretched = 1.0f / (static_cast<float>(rope.factor) * frequencies[i]);
    const float plain = 1.0f / frequencies[i];
    frequencies[i] = stretched * (1.0f - keep) + plain * keep;
  }
  return frequencies;
}

double yarn_scale(const RopeSpec& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  const auto magnitude = [&rope](double weight) {
    return rope.factor <= 1 ? 1.0 : 0.1 * weight * std::log(rope.factor) + 1.0;
  };
  const double above = rope.mscale.value_or(0.0);  // zero means absent
  const double below = rope.mscale_all_dim.value_or(0.0);
  return above != 0.0 && below != 0.0 ? magnitude(above) / magnitude(below) : magnitude(1.0);
}

/// LongRoPE (arXiv 2402.13753): one divisor per frequency.
std::vector<float> divided_frequencies(const RopeSpec& rope, const std::vector<double>& divisors) {
  std::vector<float> frequencies = wavelengths(rope);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = 1.0f / (static_cast<float>(divisors[i]) * frequencies[i]);
  }
  return frequencies;
}

/// LongRoPE's factor on cos and sin, the same for short and long sequences.
double longrope_scale(const RopeSpec& rope, double original) {
  if (rope.attention_factor) return *rope.attention_factor;
  return rope.factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(rope.factor) / std::log(original));
}

Error bad_rope(std::string_view what, double found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/checkpoint] cannot compute rotary frequencies: {}: found {}, expected {}; check the "
                      "model's config",
                      what, found, expected)};
}

Result<void> check_rope(const RopeSpec& rope, double original) {
  if (rope.rotated < 2 || rope.rotated % 2 != 0) {
    return bad_rope("rotated elements", static_cast<double>(rope.rotated), "an even number");
  }
  if (!(rope.theta > 1.0)) return bad_rope("theta", rope.theta, "more than 1");
  if (rope.turning < 0 || rope.turning > rope.rotated) {
    return bad_rope("turning elements", static_cast<double>(rope.turning), fmt::format("0 to {}", rope.rotated));
  }
  if (!(rope.factor > 0.0)) return bad_rope("factor", rope.factor, "more than 0");
  if (rope.kind != RopeSpec::Kind::kLongrope) return ok();
  if (!(original > 1.0)) return bad_rope("original maximum", original, "more than 1");
  for (const std::vector<double>& divisors : {rope.short_factors, rope.long_factors}) {
    if (static_cast<int64_t>(divisors.size()) != rope.rotated / 2) {
      return bad_rope("factors", static_cast<double>(divisors.size()), fmt::format("{}", rope.rotated / 2));
    }
  }
  return ok();
}

}  // namespace

Result<RopeTable> rope_table(const ModelSpec& spec, const RopeSpec& rope) {
  const auto original = static_cast<double>(rope.original_max_positions.value_or(spec.max_positions));
  LOCKSTEP_TRY_VOID(check_rope(rope, original));
  switch (rope.kind) {
    case RopeSpec::Kind::kDefault: return RopeTable{.frequencies = plain_frequencies(rope)};
    case RopeSpec::Kind::kLinear: return RopeTable{.frequencies = linear_frequencies(rope)};
    case RopeSpec::Kind::kProportional: return RopeTable{.frequencies = proportional_frequencies(rope)};
    case RopeSpec::Kind::kLlama3: return RopeTable{.frequencies = llama3_frequencies(rope, original)};
    case RopeSpec::Kind::kYarn:
      return RopeTable{.frequencies = yarn_frequencies(rope, original), .scale = yarn_scale(rope)};
    case RopeSpec::Kind::kLongrope:
      return RopeTable{.frequencies = divided_frequencies(rope, rope.short_factors),
                       .long_frequencies = divided_frequencies(rope, rope.long_factors),
                       .scale = longrope_scale(rope, original)};
  }
  LOCKSTEP_CHECK(false, static_cast<int>(rope.kind));
  return RopeTable{};
}

}  // namespace lockstep::checkpoint
