// Keys and values in 8 bits, decoded tile by tile to float32. Included by the isa_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// The compiler's own vectors, mapped to the machine's registers.
typedef int32_t CodeWords __attribute__((vector_size(64)));
typedef float CodeFloats __attribute__((vector_size(64)));

LOCKSTEP_LANES_INLINE CodeWords words_at(const std::byte* p) {
  CodeWords words;
  __builtin_memcpy(&words, p, sizeof words);
  return words;
}
LOCKSTEP_LANES_INLINE CodeFloats floats_at(const float* p) {
  CodeFloats floats;
  __builtin_memcpy(&floats, p, sizeof floats);
  return floats;
}

/// Byte `k` of each word as a signed integer.
struct SignedCodes {
  LOCKSTEP_LANES_INLINE CodeFloats values(CodeWords words, int k) {
    return __builtin_convertvector((words << (24 - 8 * k)) >> 24, CodeFloats);
  }
};

/// Byte `k` of each word as an integer with 128 added.
struct UnsignedCodes {
  LOCKSTEP_LANES_INLINE CodeFloats values(CodeWords words, int k) {
    return __builtin_convertvector(((words >> (8 * k)) & 0xff) - 128, CodeFloats);
  }
};

/// Byte `k` of each word as a number e4m3. One with exponent 0 is m / 8 · 2^-6 = (1 + m / 8) · 2^-6 − 2^-6.
struct E4M3Codes {
  LOCKSTEP_LANES_INLINE CodeFloats values(CodeWords words, int k) {
    const CodeWords code = words >> (8 * k);
    const CodeWords is_least = (code & 0x78) == 0;
    const CodeWords bits = ((code & 0x7f) << 20) + (120 << 23) + (is_least & (1 << 23));
    const CodeWords less = is_least & (121 << 23);
    const CodeFloats magnitude = reinterpret_cast<CodeFloats>(bits) - reinterpret_cast<CodeFloats>(less);
    return reinterpret_cast<CodeFloats>(reinterpret_cast<CodeWords>(magnitude) | ((code & 0x80) << 24));
  }
};

template <typename Codes>
static void decode_key_codes(const std::byte* tile, int64_t padded, float* dst) {
  const float* scales = reinterpret_cast<const float*>(tile + padded * kPanel);
  for (int64_t d = 0; d < padded; d += 4) {
    for (int strip = 0; strip < kPanelStrips; ++strip) {
      const CodeWords words = words_at(tile + (d * kPanel + strip * kLanes * 4));
      const CodeFloats scale = floats_at(scales + strip * kLanes);
      for (int k = 0; k < 4; ++k) {
        const CodeFloats values = Codes::values(words, k) * scale;
        __builtin_memcpy(dst + (d + k) * kPanel + strip * kLanes, &values, sizeof values);
      }
    }
  }
}

template <typename Codes>
static void decode_value_codes(const std::byte* tile, int64_t padded, float* dst) {
  const float* scales = reinterpret_cast<const float*>(tile + padded * kPanel);
  for (int64_t token = 0; token < kPanel; token += 4) {
    for (int64_t column = 0; column < padded; column += kLanes) {
      const CodeWords words = words_at(tile + (token * padded + column * 4));
      for (int k = 0; k < 4; ++k) {
        const CodeFloats values = Codes::values(words, k) * scales[token + k];
        __builtin_memcpy(dst + (token + k) * padded + column, &values, sizeof values);
      }
    }
  }
}

static void decode_keys(DType dtype, const std::byte* tile, int64_t padded, float* dst) {
  if (dtype == DType::kInt8) return decode_key_codes<UnsignedCodes>(tile, padded, dst);
  decode_key_codes<E4M3Codes>(tile, padded, dst);
}

static void decode_values(DType dtype, const std::byte* tile, int64_t padded, float* dst) {
  if (dtype == DType::kInt8) return decode_value_codes<SignedCodes>(tile, padded, dst);
  decode_value_codes<E4M3Codes>(tile, padded, dst);
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
