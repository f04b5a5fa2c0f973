// Inverse frequencies of rotary embeddings, in the float32 arithmetic and the order of operations that transformers
// uses, so that angles at long positions agree. Powers are rounded once from double; transformers' vectorised power
// may differ from that by one unit in the last place.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/checkpoint/model_spec.h"

namespace lockstep::checkpoint {
namespace {

/// theta^(2i / head_dim), f32 [head_dim / 2].
std::vector<float> wavelengths(const ModelSpec& spec) {
  std::vector<float> powers;
  const auto base = static_cast<double>(static_cast<float>(spec.rope.theta));
  for (int64_t i = 0; i < spec.head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(spec.head_dim);
    powers.push_back(static_cast<float>(std::pow(base, static_cast<double>(exponent))));
  }
  return powers;
}

std::vector<float> plain_frequencies(const ModelSpec& spec) {
  std::vector<float> frequencies = wavelengths(spec);
  for (float& f : frequencies) f = 1.0f / f;
  return frequencies;
}

double original_positions(const ModelSpec& spec) {
  return static_cast<double>(spec.rope.original_max_positions.value_or(spec.max_positions));
}

std::vector<float> linear_frequencies(const ModelSpec& spec) {
  std::vector<float> frequencies = plain_frequencies(spec);
  for (float& f : frequencies) f /= static_cast<float>(spec.rope.factor);
  return frequencies;
}

/// Llama 3.1: short waves stay, long waves are stretched by the factor, those between are blended.
std::vector<float> llama3_frequencies(const ModelSpec& spec) {
  const RopeSpec& rope = spec.rope;
  const double original = original_positions(spec);
  const auto factor = static_cast<float>(rope.factor);
  const auto longest_kept = static_cast<float>(original / rope.high_frequency_factor);
  const auto shortest_stretched = static_cast<float>(original / rope.low_frequency_factor);
  const auto band = static_cast<float>(rope.high_frequency_factor - rope.low_frequency_factor);
  std::vector<float> frequencies = plain_frequencies(spec);
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

/// The (fractional) dimension whose wave turns `rotations` times within the original positions.
double correction_dimension(const ModelSpec& spec, double rotations) {
  const auto dim = static_cast<double>(spec.head_dim);
  return dim * std::log(original_positions(spec) / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(spec.rope.theta));
}

/// YaRN (arXiv 2309.00071): stretched and plain frequencies, blended along a ramp over the dimensions.
std::vector<float> yarn_frequencies(const ModelSpec& spec) {
  double low = correction_dimension(spec, spec.rope.beta_fast);
  double high = correction_dimension(spec, spec.rope.beta_slow);
  if (spec.rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(spec.head_dim - 1));
  if (low == high) high += 0.001;
  std::vector<float> frequencies = wavelengths(spec);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float position = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float keep = 1.0f - std::clamp(position, 0.0f, 1.0f);
    const float stretched = 1.0f / (static_cast<float>(spec.rope.factor) * frequencies[i]);
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
  const double above = rope.mscale.value_or(0.0);  // zero counts as not given
  const double below = rope.mscale_all_dim.value_or(0.0);
  return above != 0.0 && below != 0.0 ? magnitude(above) / magnitude(below) : magnitude(1.0);
}

Error bad_rope(std::string_view what, double found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/checkpoint] cannot compute rotary frequencies: {}: found {}, expected {}; check the "
                      "model's config",
                      what, found, expected)};
}

}  // namespace

Result<RopeTable> rope_table(const ModelSpec& spec) {
  const RopeSpec& rope = spec.rope;
  if (spec.head_dim < 2 || spec.head_dim % 2 != 0) {
    return bad_rope("head_dim", static_cast<double>(spec.head_dim), "an even number");
  }
  if (!(rope.theta > 1.0)) return bad_rope("theta", rope.theta, "more than 1");
  if (!(rope.factor > 0.0)) return bad_rope("factor", rope.factor, "more than 0");
  switch (rope.kind) {
    case RopeSpec::Kind::kDefault: return RopeTable{plain_frequencies(spec), 1.0};
    case RopeSpec::Kind::kLinear: return RopeTable{linear_frequencies(spec), 1.0};
    case RopeSpec::Kind::kLlama3: return RopeTable{llama3_frequencies(spec), 1.0};
    case RopeSpec::Kind::kYarn: return RopeTable{yarn_frequencies(spec), yarn_scale(rope)};
  }
  LOCKSTEP_CHECK(false, static_cast<int>(rope.kind));
  return RopeTable{};
}

}  // namespace lockstep::checkpoint
