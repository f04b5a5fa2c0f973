// Rows of keys and values in 8 bits: codes, and one scale for each head and token.
//
//   | code 0 | code 1 | … | code h − 1 | scale, f32 |       a row of h values takes h + 4 bytes: row and scale are one
//
// The element type of a cache says what a code is: i8, an integer from -127 to 127, or u8, a number e4m3
// (runtime/core/weight_format.h). With m, the row's largest magnitude, and n = 127 or 448 the scale is m / n
// and a code is value · (n / m), all in float32, rounded to the nearest (ties to even). A NaN or an infinity in a row
// makes its scale NaN and its codes 0. In a row below 2^-100, scale and codes are 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/core/dtype.h"
#include "runtime/core/shape.h"

namespace lockstep {

/// The type of the keys and values in caches.
enum class CacheType : uint8_t {
  kModel,  // of the activations
  kInt8,
  kFp8,
};

/// "dtype", "int8", "fp8".
std::string_view to_string(CacheType type);
/// The inverse; empty for any other text.
std::optional<CacheType> cache_type_from_text(std::string_view text);

/// Whether rows of elements of this type end with a scale.
constexpr bool has_row_scales(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUInt8; }

inline constexpr int64_t kRowScaleBytes = 4;
/// The most values of such a row: products of so many integers up to 127 stay below 2^24, so they are exact in float32.
inline constexpr int64_t kMostCodedRow = 1024;

/// Elements of a row of `values` values in a cache with elements `dtype`, and the inverse.
constexpr int64_t row_elements(DType dtype, int64_t values) {
  return values + (has_row_scales(dtype) ? kRowScaleBytes : 0);
}
constexpr int64_t row_values(DType dtype, int64_t elements) {
  return elements - (has_row_scales(dtype) ? kRowScaleBytes : 0);
}

/// The element type of a cache of `type` in a model of `dtype`.
constexpr DType cache_elements(CacheType type, DType dtype) {
  if (type == CacheType::kModel) return dtype;
  return type == CacheType::kInt8 ? DType::kInt8 : DType::kUInt8;
}

/// The code e4m3 of a value from -448 to 448, rounded to nearest even.
uint8_t to_e4m3(float value);

/// Writes a row of `count` values as codes `dtype` and their scale, `count` + 4 bytes.
void encode_cache_row(DType dtype, const float* values, int64_t count, std::byte* row);
/// The values of a row: code times scale, in float32.
void decode_cache_row(DType dtype, const std::byte* row, int64_t count, float* values);

}  // namespace lockstep
