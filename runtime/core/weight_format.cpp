#include "runtime/core/weight_format.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

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

}  // namespace

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

int64_t overhead_bits(const WeightFormat& format) {
  const int64_t scale = 8 * size_of(format.scale);
  if (format.offset == GroupOffset::kMinima) return 2 * scale;
  return format.offset == GroupOffset::kZeros ? scale + 8 : scale;
}

float e4m3_value(uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
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
