// Element types of tensors, and the conversions between the floating-point ones.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep {

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat16, kInt32, kUInt8, kInt8 };

/// Bytes of one element.
size_t size_of(DType dtype);

/// The short name of the graph's text form: "f32", "bf16", "f16", "i32", "u8", "i8".
std::string_view to_string(DType dtype);

/// The inverse of `to_string`; empty for any other text.
std::optional<DType> dtype_from_short_name(std::string_view name);

/// Reads the spelling of a command line or config.json ("float32", "bfloat16", "float16"); floating-point types only.
Result<DType> dtype_from_config_name(std::string_view name);

/// Whether it is a floating-point type.
bool is_float(DType dtype);

/// A bfloat16: the upper half of a float32.
struct BFloat16 {
  uint16_t bits = 0;
};

/// An IEEE 754 binary16.
struct Float16 {
  uint16_t bits = 0;
};

inline float to_float(BFloat16 v) { return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16); }

/// Rounds to nearest even; a NaN stays a (quiet) NaN.
inline BFloat16 to_bfloat16(float v) {
  uint32_t bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<uint16_t>(bits >> 16)};
}

float to_float(Float16 v);

/// Rounds to nearest even; a value above the range becomes infinity, a NaN stays a (quiet) NaN.
Float16 to_float16(float v);

/// Rounds to the nearest value of `dtype`, ties to even.
inline float round_to(DType dtype, float v) {
  if (dtype == DType::kBFloat16) return to_float(to_bfloat16(v));
  if (dtype == DType::kFloat16) return to_float(to_float16(v));
  return v;
}

/// Converts `count` elements between floating-point types; `src` and `dst` are row-major and do not overlap.
void convert_elements(const std::byte* src, DType src_type, std::byte* dst, DType dst_type, size_t count);

}  // namespace lockstep
