#include "runtime/core/cache_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/core/int8_groups.h"
#include "runtime/core/weight_format.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"dtype", "int8", "fp8"};

constexpr float kLargestE4M3 = 448.0f;

/// As `to_int8`, in e4m3.
float to_e4m3_row(const float* values, int64_t count, std::byte* codes) {
  float most = 0.0f;
  bool is_finite = true;
  for (int64_t i = 0; i < count; ++i) {
    is_finite = is_finite && std::isfinite(values[i]);
    most = std::max(most, std::abs(values[i]));
  }
  if (!is_finite || most < 0x1p-100f) {
    std::fill_n(codes, count, std::byte{0});
    return is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = kLargestE4M3 / most;
  for (int64_t i = 0; i < count; ++i) codes[i] = std::byte{to_e4m3(values[i] * inverse)};
  return most / kLargestE4M3;
}

}  // namespace

std::string_view to_string(CacheType type) { return kNames[static_cast<size_t>(type)]; }

std::optional<CacheType> cache_type_from_text(std::string_view text) {
  const auto* const found = std::ranges::find(kNames, text);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<CacheType>(found - kNames.begin());
}

uint8_t to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u, magnitude = bits & 0x7fffffffu;
  constexpr uint32_t kLeastNormal = 121u << 23;  // 2^-6
  if (magnitude < kLeastNormal) {                // multiples of 2^-9; adding 2^14 rounds to them
    const float steps = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(steps) & 0xfu));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);  // three bits of mantissa stay
  return static_cast<uint8_t>(sign | std::min((rounded >> 20) - (120u << 3), 0x7eu));
}

void encode_cache_row(DType dtype, const float* values, int64_t count, std::byte* row) {
  const float scale =
      dtype == DType::kInt8 ? to_int8(values, count, reinterpret_cast<int8_t*>(row)) : to_e4m3_row(values, count, row);
  std::memcpy(row + count, &scale, sizeof scale);
}

void decode_cache_row(DType dtype, const std::byte* row, int64_t count, float* values) {
  float scale = 0.0f;
  std::memcpy(&scale, row + count, sizeof scale);
  for (int64_t i = 0; i < count; ++i) {
    const auto code = static_cast<uint8_t>(row[i]);
    values[i] = scale * (dtype == DType::kInt8 ? static_cast<float>(static_cast<int8_t>(code)) : e4m3_value(code));
  }
}

}  // namespace lockstep
