#include "runtime/core/dtype.h"

#include <array>
#include <cstring>

namespace lockstep {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view short_name;
  std::string_view config_name;
  size_t size;
};

constexpr std::array<DTypeRow, 6> kTypes = {{{DType::kFloat32, "f32", "float32", 4},
                                             {DType::kBFloat16, "bf16", "bfloat16", 2},
                                             {DType::kFloat16, "f16", "float16", 2},
                                             {DType::kInt32, "i32", "int32", 4},
                                             {DType::kUInt8, "u8", "uint8", 1},
                                             {DType::kInt8, "i8", "int8", 1}}};

const DTypeRow& row_of(DType dtype) { return kTypes[static_cast<size_t>(dtype)]; }

float load(const std::byte* src, DType type, size_t i) {
  switch (type) {
    case DType::kFloat32: {
      float v;
      std::memcpy(&v, src + i * 4, 4);
      return v;
    }
    case DType::kBFloat16: {
      BFloat16 v;
      std::memcpy(&v.bits, src + i * 2, 2);
      return to_float(v);
    }
    default: {
      Float16 v;
      std::memcpy(&v.bits, src + i * 2, 2);
      return to_float(v);
    }
  }
}

void store(std::byte* dst, DType type, size_t i, float v) {
  if (type == DType::kFloat32) {
    std::memcpy(dst + i * 4, &v, 4);
    return;
  }
  const uint16_t bits = type == DType::kBFloat16 ? to_bfloat16(v).bits : to_float16(v).bits;
  std::memcpy(dst + i * 2, &bits, 2);
}

}  // namespace

size_t size_of(DType dtype) { return row_of(dtype).size; }

std::string_view to_string(DType dtype) { return row_of(dtype).short_name; }

bool is_float(DType dtype) { return dtype <= DType::kFloat16; }

std::optional<DType> dtype_from_short_name(std::string_view name) {
  for (const DTypeRow& row : kTypes) {
    if (row.short_name == name) return row.dtype;
  }
  return std::nullopt;
}

Result<DType> dtype_from_config_name(std::string_view name) {
  for (const DTypeRow& row : kTypes) {
    if (row.config_name == name && is_float(row.dtype)) return row.dtype;
  }
  return Error{ErrorKind::kInvalidArgument, fmt::format("[core] cannot use dtype: found \"{}\", expected float32, "
                                                        "bfloat16 or float16",
                                                        name)};
}

float to_float(Float16 v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  const uint32_t exponent = (v.bits >> 10) & 0x1fu;
  const uint32_t mantissa = v.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

Float16 to_float16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {                                                 // subnormal: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;                 // 0.5f has 2^-24 as its last bit
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - std::bit_cast<uint32_t>(0.5f)))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

void convert_elements(const std::byte* src, DType src_type, std::byte* dst, DType dst_type, size_t count) {
  LOCKSTEP_CHECK(is_float(src_type) && is_float(dst_type), to_string(src_type), to_string(dst_type));
  if (src_type == dst_type) {
    if (count > 0) std::memcpy(dst, src, count * size_of(src_type));  // an empty array may have no address
    return;
  }
  for (size_t i = 0; i < count; ++i) store(dst, dst_type, i, load(src, src_type, i));
}

}  // namespace lockstep
