#include "runtime/core/weight_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/core/check.h"
#include "runtime/core/int8_groups.h"

namespace lockstep {
namespace {

struct KindName {
  CodeKind kind;
  int bits;
  std::string_view name;
};
constexpr std::array kKinds = {KindName{CodeKind::kInteger, 4, "q4"}, KindName{CodeKind::kInteger, 8, "q8"},
                               KindName{CodeKind::kE2M1, 4, "e2m1"}, KindName{CodeKind::kE4M3, 8, "e4m3"}};

struct ScaleName {
  ScaleType type;
  std::string_view name;
};
constexpr std::array kScales = {ScaleName{ScaleType::kFloat32, ""}, ScaleName{ScaleType::kBFloat16, ".bf16"},
                                ScaleName{ScaleType::kFloat16, ".f16"}, ScaleName{ScaleType::kPowerOfTwo, ".e8m0"}};

struct OffsetName {
  GroupOffset offset;
  std::string_view name;
};
constexpr std::array kOffsets = {OffsetName{GroupOffset::kNone, ""}, OffsetName{GroupOffset::kZeros, "z"},
                                 OffsetName{GroupOffset::kMinima, "m"}};

/// The code of `value` as a multiple of a scale: −8 to 7, plus 8.
int code_of(float value, float inverse) {
  return static_cast<int>(std::clamp(std::nearbyint(value * inverse), -8.0f, 7.0f)) + 8;
}

/// The sum of the squares of what rounding to multiples of `scale` changes.
float square_error(const float* values, int64_t count, float scale) {
  const float inverse = 1.0f / scale;
  float sum = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float error = values[i] - scale * static_cast<float>(code_of(values[i], inverse) - 8);
    sum += error * error;
  }
  return sum;
}

float quantise_to_4_bits(const WeightFormat& format, const float* values, int64_t count, uint8_t* codes) {
  float extreme = 0.0f;  // with its sign: it becomes a multiple near −8
  bool is_finite = true;
  for (int64_t i = 0; i < count; ++i) {
    is_finite = is_finite && std::isfinite(values[i]);
    if (std::abs(values[i]) > std::abs(extreme)) extreme = values[i];
  }
  if (!is_finite || std::abs(extreme) < 0x1p-100f) {
    std::fill_n(codes, count, uint8_t{8});
    return is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  float scale = 0.0f, least = std::numeric_limits<float>::infinity();
  for (int step = 0; step < 12; ++step) {
    const float tried = round_to(format.scale, extreme / (-8.0f + 0.125f * static_cast<float>(step)));
    const float error = tried == 0.0f || !std::isfinite(tried) ? least : square_error(values, count, tried);
    if (error < least) least = error, scale = tried;
  }
  const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(code_of(values[i], inverse));
  return scale;
}

}  // namespace

float quantise(const WeightFormat& format, const float* values, int64_t count, uint8_t* codes) {
  LOCKSTEP_CHECK(format.kind == CodeKind::kInteger && format.offset == GroupOffset::kNone, to_string(format));
  LOCKSTEP_CHECK(format.scale != ScaleType::kPowerOfTwo, to_string(format));
  if (format.bits == 4) return quantise_to_4_bits(format, values, count, codes);
  const float exact = to_int8(values, count, reinterpret_cast<int8_t*>(codes));
  const float scale = round_to(format.scale, exact);
  if (scale != exact && scale > 0.0f && std::isfinite(scale)) {
    for (int64_t i = 0; i < count; ++i) {
      codes[i] =
          static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(values[i] / scale), -127.0f, 127.0f)));
    }
  }
  for (int64_t i = 0; i < count; ++i) codes[i] ^= 0x80;  // plus 128
  return scale;
}

namespace {

constexpr GroupScale kNotFinite{std::numeric_limits<float>::quiet_NaN(), 0.0f};

bool are_finite(const float* values, int64_t count) {
  return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
}

/// Integers of `bits` from the least value to the largest; zero is among them.
GroupScale quantise_with_offset(const WeightFormat& format, const float* values, int64_t count, uint8_t* codes) {
  const auto [least, largest] = std::minmax_element(values, values + count);
  const float low = std::min(*least, 0.0f), high = std::max(*largest, 0.0f);
  const float most = static_cast<float>((1 << format.bits) - 1);
  GroupScale made{round_to(format.scale, (high - low) / most), 0.0f};
  if (made.scale == 0.0f) made.scale = 1.0f;
  const bool has_zeros = format.offset == GroupOffset::kZeros;
  made.offset = has_zeros ? std::clamp(std::nearbyint(-low / made.scale), 0.0f, most) : round_to(format.scale, low);
  for (int64_t i = 0; i < count; ++i) {
    const float code = has_zeros ? values[i] / made.scale + made.offset : (values[i] - made.offset) / made.scale;
    codes[i] = static_cast<uint8_t>(std::clamp(std::nearbyint(code), 0.0f, most));
  }
  return made;
}

/// The codes of floats, searched for the nearest value.
GroupScale quantise_to_floats(const WeightFormat& format, const float* values, int64_t count, uint8_t* codes) {
  const float largest_code = format.kind == CodeKind::kE2M1 ? 6.0f : 448.0f;
  float most = 0.0f;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(values[i]));
  const float scale = most == 0.0f ? 1.0f : round_to(format.scale, most / largest_code);
  const int count_of_codes = 1 << format.bits;
  for (int64_t i = 0; i < count; ++i) {
    float least = std::numeric_limits<float>::infinity();
    for (int code = 0; code < count_of_codes; ++code) {
      const float error = std::abs(code_value(format, static_cast<uint8_t>(code)) * scale - values[i]);
      if (error < least) least = error, codes[i] = static_cast<uint8_t>(code);  // never a NaN
    }
  }
  return {scale, 0.0f};
}

}  // namespace

GroupScale quantise_group(const WeightFormat& format, const float* values, int64_t count, uint8_t* codes) {
  if (format.kind == CodeKind::kInteger && format.offset == GroupOffset::kNone) {
    return {quantise(format, values, count, codes), 0.0f};
  }
  if (!are_finite(values, count)) {
    std::fill_n(codes, count, uint8_t{0});
    return kNotFinite;
  }
  return format.kind == CodeKind::kInteger ? quantise_with_offset(format, values, count, codes)
                                           : quantise_to_floats(format, values, count, codes);
}

const std::array<float, 16> kE2M1Values = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                           -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

std::string to_string(const WeightFormat& format) {
  std::string text;
  for (const KindName& kind : kKinds) {
    if (kind.kind == format.kind && kind.bits == format.bits) text = kind.name;
  }
  text += fmt::format("g{}", format.group);
  for (const OffsetName& offset : kOffsets) {
    if (offset.offset == format.offset) text += offset.name;
  }
  for (const ScaleName& scale : kScales) {
    if (scale.type == format.scale) text += scale.name;
  }
  return text;
}

std::optional<WeightFormat> weight_format_from_text(std::string_view text) {
  for (const KindName& kind : kKinds) {
    if (!text.starts_with(kind.name)) continue;
    std::string_view rest = text.substr(kind.name.size());
    if (!rest.starts_with('g')) return std::nullopt;
    rest.remove_prefix(1);
    WeightFormat format{.kind = kind.kind, .bits = kind.bits};
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), format.group);
    if (error != std::errc() || format.group < 1) return std::nullopt;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    // The names are disjoint, so at most one pair matches.
    for (const OffsetName& offset : kOffsets) {
      for (const ScaleName& scale : kScales) {
        if (rest != fmt::format("{}{}", offset.name, scale.name)) continue;
        format.offset = offset.offset;
        format.scale = scale.type;
        return to_string(format) == text ? std::optional(format) : std::nullopt;
      }
    }
  }
  return std::nullopt;
}

int64_t size_of(ScaleType type) {
  switch (type) {
    case ScaleType::kFloat32: return 4;
    case ScaleType::kBFloat16:
    case ScaleType::kFloat16: return 2;
    case ScaleType::kPowerOfTwo: return 1;
  }
  return 4;
}

float round_to(ScaleType type, float scale) {
  switch (type) {
    case ScaleType::kFloat32: return scale;
    case ScaleType::kBFloat16: return round_to(DType::kBFloat16, scale);
    case ScaleType::kFloat16: return round_to(DType::kFloat16, scale);
    case ScaleType::kPowerOfTwo: break;
  }
  if (!(scale > 0.0f)) return scale == 0.0f ? 0x1p-127f : std::numeric_limits<float>::quiet_NaN();
  return std::exp2(std::clamp(std::ceil(std::log2(scale)), -127.0f, 127.0f));
}

int64_t overhead_bits(const WeightFormat& format) {
  const int64_t scale = 8 * size_of(format.scale);
  if (format.offset == GroupOffset::kMinima) return 2 * scale;
  return format.offset == GroupOffset::kZeros ? scale + 8 : scale;
}

namespace {

float computed_e4m3(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

}  // namespace

float e4m3_value(uint8_t code) {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (int i = 0; i < 256; ++i) all[static_cast<size_t>(i)] = computed_e4m3(i);
    return all;
  }();
  return values[code];
}

float code_value(const WeightFormat& format, uint8_t code) {
  switch (format.kind) {
    case CodeKind::kE2M1: return kE2M1Values[code & 15];
    case CodeKind::kE4M3: return e4m3_value(code);
    case CodeKind::kInteger: break;
  }
  if (format.offset != GroupOffset::kNone) return static_cast<float>(code);
  return static_cast<float>(int{code} - (1 << (format.bits - 1)));
}

float decode(const WeightFormat& format, uint8_t code, float scale, float offset) {
  const float value = code_value(format, code);
  switch (format.offset) {
    case GroupOffset::kZeros: return scale * (value - offset);
    case GroupOffset::kMinima: return scale * value + offset;
    case GroupOffset::kNone: break;
  }
  return scale * value;
}

}  // namespace lockstep
