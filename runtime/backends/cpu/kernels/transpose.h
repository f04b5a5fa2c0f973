// Values of latent attention: the first columns of a tile of keys, transposed to a tile of values (kv_layout.h).
// Included by the isa_*.cpp files.
//
// Sixteen tokens at a time: their 16 lines of the destination stay in the first-level cache while all columns pass. A
// vector holds 128-bit groups, and every round interleaves the groups of two vectors, so that the last vectors hold
// neighbouring columns of one token in each group.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

using Vector16 = uint16_t __attribute__((vector_size(32)));  // 16 tokens of a column
using Vector32 = uint32_t __attribute__((vector_size(32)));  // 8 tokens, or 8 pairs
using Vector64 = uint64_t __attribute__((vector_size(32)));

/// The lower and upper halves of all 128-bit groups of a and b, interleaved by elements.
LOCKSTEP_LANES_INLINE Vector16 low_halves(Vector16 a, Vector16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27);
}
LOCKSTEP_LANES_INLINE Vector16 high_halves(Vector16 a, Vector16 b) {
  return __builtin_shufflevector(a, b, 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31);
}
LOCKSTEP_LANES_INLINE Vector32 low_halves(Vector32 a, Vector32 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
LOCKSTEP_LANES_INLINE Vector32 high_halves(Vector32 a, Vector32 b) {
  return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
LOCKSTEP_LANES_INLINE Vector64 low_halves(Vector64 a, Vector64 b) { return __builtin_shufflevector(a, b, 0, 4, 2, 6); }
LOCKSTEP_LANES_INLINE Vector64 high_halves(Vector64 a, Vector64 b) { return __builtin_shufflevector(a, b, 1, 5, 3, 7); }

/// Transposes each group of kCount vectors, kCount elements to a group: afterwards vector i holds element i of all.
template <typename Vector, int kCount>
LOCKSTEP_LANES_INLINE void transpose_groups(Vector (&v)[kCount]) {
#pragma GCC unroll 3
  for (int round = 1; round < kCount; round *= 2) {
    Vector next[kCount];
#pragma GCC unroll 4
    for (int i = 0; i < kCount / 2; ++i) {
      next[2 * i] = low_halves(v[i], v[i + kCount / 2]);
      next[2 * i + 1] = high_halves(v[i], v[i + kCount / 2]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) v[i] = next[i];
  }
}

/// Stores one of the two groups of a vector.
template <typename Vector>
LOCKSTEP_LANES_INLINE void store_group(const Vector& v, int group, std::byte* dst) {
  __builtin_memcpy(dst, reinterpret_cast<const std::byte*>(&v) + 16 * group, 16);
}

/// From [columns][kPanel] elements to [kPanel][padded].
template <typename Element, typename Vector>
LOCKSTEP_LANES_INLINE void transpose_elements(const std::byte* keys, int64_t columns, int64_t padded,
                                              std::byte* values) {
  constexpr int kSize = static_cast<int>(sizeof(Element)), kCount = 16 / kSize, kTokens = 2 * kCount;
  constexpr int64_t kColumn = kPanel * kSize;  // bytes
  const int64_t row = padded * kSize;
  const int64_t whole = columns / kCount * kCount;
  for (int64_t token = 0; token < kPanel; token += kTokens) {
    for (int64_t d = 0; d < whole; d += kCount) {
      Vector v[kCount];
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) __builtin_memcpy(&v[i], keys + (d + i) * kColumn + token * kSize, sizeof v[i]);
      transpose_groups<Vector, kCount>(v);
      std::byte* to = values + token * row + d * kSize;
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        store_group(v[i], 0, to + i * row);
        store_group(v[i], 1, to + (i + kCount) * row);
      }
    }
  }
  for (int64_t d = whole; d < columns; ++d) {
    for (int64_t token = 0; token < kPanel; ++token) {
      __builtin_memcpy(values + token * row + d * kSize, keys + d * kColumn + token * kSize, kSize);
    }
  }
}

static void transpose_16(const std::byte* keys, int64_t columns, int64_t padded, std::byte* values) {
  transpose_elements<uint16_t, Vector16>(keys, columns, padded, values);
}
static void transpose_32(const std::byte* keys, int64_t columns, int64_t padded, std::byte* values) {
  transpose_elements<uint32_t, Vector32>(keys, columns, padded, values);
}

/// From pairs of columns, [columns / 2][kPanel][2], to pairs of tokens, [kPanel / 2][padded][2].
static void transpose_pairs(const std::byte* keys, int64_t columns, int64_t padded, std::byte* values) {
  constexpr int64_t kColumns = kPanel * 4;  // bytes of a pair of columns
  const int64_t row = padded * 4;           // bytes of a pair of tokens
  const int64_t whole = columns / 4 * 4;
  for (int64_t token = 0; token < kPanel; token += 8) {
    for (int64_t d = 0; d < whole; d += 4) {
      Vector16 a, b;
      __builtin_memcpy(&a, keys + d / 2 * kColumns + token * 4, sizeof a);
      __builtin_memcpy(&b, keys + (d / 2 + 1) * kColumns + token * 4, sizeof b);
      // Tokens t and t + 1 of one column side by side.
      a = __builtin_shufflevector(a, a, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
      b = __builtin_shufflevector(b, b, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
      const Vector64 first = low_halves(Vector64(a), Vector64(b)), second = high_halves(Vector64(a), Vector64(b));
      std::byte* to = values + token / 2 * row + d * 4;
      store_group(first, 0, to);
      store_group(second, 0, to + row);
      store_group(first, 1, to + 2 * row);
      store_group(second, 1, to + 3 * row);
    }
  }
  for (int64_t d = whole; d < columns; ++d) {
    for (int64_t token = 0; token < kPanel; ++token) {
      __builtin_memcpy(values + token / 2 * row + d * 4 + token % 2 * 2,
                       keys + d / 2 * kColumns + token * 4 + d % 2 * 2, 2);
    }
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
