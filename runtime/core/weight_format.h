// Formats of weight matrices in 4 and 8 bits: codes, and scales for groups of columns.
//
//   row n of a matrix [N, K]    | group 0          | group 1          | …       a group is G columns of one row
//                               codes c[k]  one scale s, and with some formats one zero or minimum z
//
//   kNone      w[k] = s · v(c[k])         v is c − 2^(bits − 1) for integers, the number's value for e2m1 and e4m3
//   kZeros     w[k] = s · (c[k] − z)      z is an integer from 0 to 2^bits
//   kMinima    w[k] = s · c[k] + z        z has the type of the scales
//
// Every quantised checkpoint is one of these. Codes are unsigned; products are in runtime/graph/OPERATIONS.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/core/dtype.h"
#include "runtime/core/field_list.h"

namespace lockstep {

/// What a code stands for.
enum class CodeKind : uint8_t {
  kInteger,  // an unsigned integer
  kE2M1,     // a float of 4 bits: sign, 2 bits of exponent, 1 of mantissa (OCP Microscaling Formats 1.0)
  kE4M3,     // a float of 8 bits without infinities (OCP FP8: float8_e4m3fn); 0x7f and 0xff are NaN
};

/// What a group has beside its scale.
enum class GroupOffset : uint8_t { kNone, kZeros, kMinima };

/// The type in which scales and minima are stored, without loss.
enum class ScaleType : uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kPowerOfTwo,  // one byte b: 2^(b − 127) (E8M0)
};

/// The format of a matrix. Its text form is that of the graph: "q4g32" (integers of 4 bits, groups of 32, float32
/// scales), "q4g32z" with zeros, "q8g128m" with minima, "e2m1g32" and "e4m3g128"; then ".f16", ".bf16" or ".e8m0" for
/// other scales.
struct WeightFormat {
  CodeKind kind = CodeKind::kInteger;
  int bits = 4;        // of a code: 4 or 8
  int64_t group = 32;  // columns of a group, at least 1
  GroupOffset offset = GroupOffset::kNone;
  ScaleType scale = ScaleType::kFloat32;

  friend bool operator==(const WeightFormat&, const WeightFormat&) = default;
};
LOCKSTEP_FIELDS(WeightFormat, kind, bits, group, offset, scale);

std::string to_string(const WeightFormat& format);
/// The inverse of `to_string`; empty for any other text.
std::optional<WeightFormat> weight_format_from_text(std::string_view text);

/// Bytes of a stored scale.
int64_t size_of(ScaleType type);
/// Rounds to the nearest value of `type`; to a power of two upwards, so that nothing is cut off.
float round_to(ScaleType type, float scale);
/// Bits that a group has beside its codes.
int64_t overhead_bits(const WeightFormat& format);

/// The value of each of the 16 codes e2m1.
extern const std::array<float, 16> kE2M1Values;
/// The value of a code e4m3.
float e4m3_value(uint8_t code);
/// v(code) as above; of integers with zeros or minima, the code itself.
float code_value(const WeightFormat& format, uint8_t code);
/// One weight in float32.
float decode(const WeightFormat& format, uint8_t code, float scale, float offset);

/// Quantises a group of `count` values of a row to codes, and returns its scale, a value of the format's ScaleType. For
/// integers without offsets: q8 as `to_int8` with the scale rounded, plus 128; q4 with the scale, of some near the
/// largest magnitude / 8, that has the least square error. A NaN or an infinity gives the scale NaN.
float quantise(const WeightFormat& format, const float* values, int64_t count, uint8_t* codes);

/// What a group has beside its codes.
struct GroupScale {
  float scale = 0.0f;
  float offset = 0.0f;  // zero or minimum
};
/// The same for every format. With offsets, codes cover the values from the least to the largest; floats have the scale
/// that makes the largest magnitude the largest code, and the nearest codes.
GroupScale quantise_group(const WeightFormat& format, const float* values, int64_t count, uint8_t* codes);

/// Rows of a matrix in a format, as readers give them to packers: unpacked, row-major. Borrows the memory.
struct CodedRows {
  std::span<uint8_t> codes;  // [rows, K]: one per byte
  std::span<float> scales;   // [rows, groups]
  std::span<float> offsets;  // [rows, groups]: zeros or minima; empty with kNone
};

}  // namespace lockstep
