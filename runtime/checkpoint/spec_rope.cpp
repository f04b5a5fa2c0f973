// The rotary part of a config.json: kinds, their keys and notations.
#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

#include "runtime/checkpoint/spec_keys.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;
using Kind = RopeSpec::Kind;

constexpr std::string_view kOriginalMaximum = "original_max_position_embeddings";

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
Result<int64_t> read_original_maximum(const KeyReader& config, const KeyReader& rope, const RopeKeys& keys,
                                      int64_t max_positions) {
  constexpr Limits<int64_t> kOriginal{2, kPositions.most};  // with 1, logarithms would be 0
  if (config.has(kOriginalMaximum)) return config.integer(kOriginalMaximum, kOriginal);
  if (keys.original_max_positions) return *keys.original_max_positions;
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
    LOCKSTEP_TRY(spec.original_max_positions, read_original_maximum(config, rope, keys, max_positions));
  }
  LOCKSTEP_TRY(spec.factor, read_factor(rope, spec, max_positions));
  if (spec.kind == Kind::kLlama3) return read_llama3(rope, spec);
  if (spec.kind == Kind::kYarn) return read_yarn(rope, spec);
  if (spec.kind == Kind::kLongrope) return read_longrope(rope, spec);
  return ok();
}

}  // namespace

Result<RopeSpec> read_rope(const KeyReader& config, const ModelSpec& spec, const RopeKeys& keys) {
  constexpr Limits<double> kTheta{1.0 + 1e-6, 1e15};
  constexpr Limits<double> kPart{0.0, 1.0};
  RopeSpec result;
  LOCKSTEP_TRY(result.theta, config.number_or(keys.theta.name, *keys.theta.otherwise, kTheta));
  LOCKSTEP_TRY(double part, config.number_or(keys.rotated.name, *keys.rotated.otherwise, kPart));
  LOCKSTEP_TRY(auto rope, config.object("rope_scaling"));
  if (!rope || config.find("rope_scaling")->empty()) {
    LOCKSTEP_TRY(rope, config.object("rope_parameters"));
  }
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

Result<RopeSpec> read_layer_rope(const KeyReader& config, const ModelSpec& spec, std::string_view layers,
                                 const json* rope_scaling, Key<double> theta) {
  json rope = json::object();
  LOCKSTEP_TRY(const auto nested, config.object("rope_parameters"));
  if (nested) {
    LOCKSTEP_TRY(const auto own, nested->object(layers));
    if (own) rope = *nested->find(layers);
  }
  if (rope_scaling != nullptr) rope.update(*rope_scaling);
  json flat = {{"rope_parameters", std::move(rope)}};
  if (const json* beside = config.find(theta.name)) flat[std::string(theta.name)] = *beside;
  const KeyReader reader(flat, fmt::format("{}: {}", config.origin(), layers));
  return read_rope(reader, spec, {.theta = theta});
}

}  // namespace lockstep::checkpoint
