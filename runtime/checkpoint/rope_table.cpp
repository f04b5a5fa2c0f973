// Inverse frequencies of rotary embeddings. They use transformers' float32 arithmetic and order of operations, so that
// angles at long positions match. Powers are rounded once from double; transformers' vectorised power may differ by one
// unit in the last place.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "runtime/checkpoint/model_spec.h"

namespace lockstep::checkpoint {
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
    } else if (wave >= longest_kept) {
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
