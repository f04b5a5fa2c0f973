// Products by a warpgroup (four warps) of matrices in shared memory: both, for the probe of the GPU's limits, or the
// right one, for weights that come in registers.
//
// Of equal operands the products have the bits of mma_16x8x16 (seen on an H100: docs/gpu.md), so the kernels that use
// one or the other agree.
//
// The only file beside device.h that is written twice: as PTX, and as plain loops for tests.
//
//   SharedRows   rows of 16 elements, in blocks of 8 × 8 that lie in one piece (PTX ISA, "no swizzle", K-major):
//                row 0-7   │ columns 0-7 │ columns 8-15 │        16 bytes a row of a block, 128 bytes a block
//                row 8-15  │ columns 0-7 │ columns 8-15 │
//   TokenRows    rows of 64 elements, 128 bytes, in 8 chunks of 16 bytes: chunk c of row r lies in c ^ r % 8 ("128-byte
//                swizzle"), so that no two rows of eight are in the same banks
#pragma once

#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {

template <int kRows>
struct alignas(128) SharedRows {
  uint16_t element[kRows * 16];

  LOCKSTEP_DEVICE static int index(int row, int column) {
    return (row / 8 * 2 + column / 8) * 64 + row % 8 * 8 + column % 8;
  }
};

constexpr int kGroupRows = 64, kGroupColumns = 128;  // of a product
constexpr int kColumnGroups = kGroupColumns / 8;     // a thread has four sums of each

/// Aligned as the swizzle needs it.
template <int kRows>
struct alignas(1024) TokenRows {
  Words chunk[kRows][8];
};

#ifdef __CUDACC__

/// Addresses 16 bytes apart are numbered; blocks follow each other along a row, and rows of blocks follow them.
LOCKSTEP_DEVICE uint64_t matrix_descriptor(const void* shared) {
  constexpr uint64_t kNextBlock = 128 / 16, kNextRows = 256 / 16;
  const auto address = static_cast<uint64_t>(__cvta_generic_to_shared(shared));
  return (address & 0x3ffff) >> 4 | kNextBlock << 16 | kNextRows << 32;
}

/// What threads have written to shared memory is seen by products from here on; a barrier follows.
LOCKSTEP_DEVICE void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Before the first product of a loop.
LOCKSTEP_DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Makes a group of the products since the last one, and waits for all groups but the newest `kPending`.
template <int kPending>
LOCKSTEP_DEVICE void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Eight rows after another, 1024 bytes; bit 62: the swizzle. `step`: of 16 columns.
LOCKSTEP_DEVICE uint64_t token_descriptor(const void* rows, int step) {
  constexpr uint64_t kNextRows = 1024 / 16;
  const auto address = static_cast<uint64_t>(__cvta_generic_to_shared(rows)) + 32 * static_cast<uint64_t>(step);
  return (address & 0x3ffff) >> 4 | uint64_t{1} << 16 | kNextRows << 32 | uint64_t{1} << 62;
}

// Names and operands of the sums d[group][4], of 8 and of 16 groups.
#define LOCKSTEP_NAMES_OF_8                                                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LOCKSTEP_NAMES_OF_16                                                                                    \
  LOCKSTEP_NAMES_OF_8                                                                                           \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
  "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LOCKSTEP_SUMS_OF_1(g) "+f"(d[g][0]), "+f"(d[g][1]), "+f"(d[g][2]), "+f"(d[g][3])
#define LOCKSTEP_SUMS_OF_4(g) \
  LOCKSTEP_SUMS_OF_1(g), LOCKSTEP_SUMS_OF_1(g + 1), LOCKSTEP_SUMS_OF_1(g + 2), LOCKSTEP_SUMS_OF_1(g + 3)
#define LOCKSTEP_SUMS_OF_8 LOCKSTEP_SUMS_OF_4(0), LOCKSTEP_SUMS_OF_4(4)
#define LOCKSTEP_SUMS_OF_16 LOCKSTEP_SUMS_OF_8, LOCKSTEP_SUMS_OF_4(8), LOCKSTEP_SUMS_OF_4(12)
// d += a · b. `operands` names what follows: the operands that are no sums.
#define LOCKSTEP_WGMMA_OF(types, shape, groups, operands, ...)                                                  \
  asm volatile(                                                                                                 \
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                                \
      "wgmma.mma_async.sync.aligned." shape ".f32." types " {" LOCKSTEP_NAMES_OF_##groups "}, " operands ";\n}" \
      : LOCKSTEP_SUMS_OF_##groups                                                                               \
      : __VA_ARGS__)
#define LOCKSTEP_WGMMA(shape, groups, operands, ...)                        \
  do {                                                                      \
    if constexpr (kIsHalf) {                                                \
      LOCKSTEP_WGMMA_OF("f16.f16", shape, groups, operands, __VA_ARGS__);   \
    } else {                                                                \
      LOCKSTEP_WGMMA_OF("bf16.bf16", shape, groups, operands, __VA_ARGS__); \
    }                                                                       \
  } while (false)

/// d += a · bᵀ, in f32. Thread 32·w + 4·g + t of the warpgroup holds rows 16w + g and 16w + g + 8, columns 8j + 2t and
/// 8j + 2t + 1 of each j, in d[j][0], d[j][1] (the first row), d[j][2] and d[j][3].
template <bool kIsHalf>
LOCKSTEP_DEVICE void multiply_shared(float (&d)[kColumnGroups][4], const SharedRows<kGroupRows>& a,
                                     const SharedRows<kGroupColumns>& b) {
  static_assert(kColumnGroups == 16);
  LOCKSTEP_WGMMA("m64n128k16", 16, "%64, %65, p, 1, 1, 0, 0", "l"(matrix_descriptor(a.element)),
                 "l"(matrix_descriptor(b.element)));
}

/// d += w · tᵀ for a step of 16 columns: `a` are the lane's fragments of its warp's 16 outputs (as mma_16x8x16's a),
/// columns 16·step … of `rows` the tokens; d[g] has group g of 8 tokens, as mma_16x8x16's d. All four warps take part.
template <typename Rows, int kGroups>
LOCKSTEP_DEVICE void multiply_tokens(float (&d)[kGroups][4], const Words& a, const TokenRows<kGroups * 8>& rows,
                                     int step) {
  constexpr bool kIsHalf = Rows::kIsHalf;
  const uint64_t tokens = token_descriptor(&rows, step);
  if constexpr (kGroups == 16) {
    LOCKSTEP_WGMMA("m64n128k16", 16, "{%64, %65, %66, %67}, %68, p, 1, 1, 0", "r"(a.word[0]), "r"(a.word[1]),
                   "r"(a.word[2]), "r"(a.word[3]), "l"(tokens));
  } else {
    static_assert(kGroups == 8);
    LOCKSTEP_WGMMA("m64n64k16", 8, "{%32, %33, %34, %35}, %36, p, 1, 1, 0", "r"(a.word[0]), "r"(a.word[1]),
                   "r"(a.word[2]), "r"(a.word[3]), "l"(tokens));
  }
}

/// Keeps the compiler from moving, beyond this place, what it does with sums that products add to.
template <int kGroups>
LOCKSTEP_DEVICE void hold_sums(float (&d)[kGroups][4]) {
  LOCKSTEP_UNROLL
  for (int group = 0; group < kGroups; ++group) asm volatile("" : LOCKSTEP_SUMS_OF_1(group)::"memory");
}

#undef LOCKSTEP_WGMMA
#undef LOCKSTEP_WGMMA_OF
#undef LOCKSTEP_SUMS_OF_16
#undef LOCKSTEP_SUMS_OF_8
#undef LOCKSTEP_SUMS_OF_4
#undef LOCKSTEP_SUMS_OF_1
#undef LOCKSTEP_NAMES_OF_16
#undef LOCKSTEP_NAMES_OF_8

#else

inline void show_to_products() {}
inline void begin_products() { sync_warp(); }
template <int kPending>
void end_products() {
  sync_warp();
}

template <bool kIsHalf>
void multiply_shared(float (&d)[kColumnGroups][4], const SharedRows<kGroupRows>& a,
                     const SharedRows<kGroupColumns>& b) {
  const auto value = [](uint16_t bits) { return kIsHalf ? float_of_half(bits) : float_of(bits); };
  const int lane = thread_index() % 32, first_row = thread_index() % 128 / 32 * 16 + lane / 4;
  float rows[2][16];
  for (int k = 0; k < 16; ++k) {
    for (int i = 0; i < 2; ++i) rows[i][k] = value(a.element[a.index(first_row + 8 * i, k)]);
  }
  for (int i = 0; i < 4 * kColumnGroups; ++i) {
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    float& sum = d[i / 4][i % 4];
    for (int k = 0; k < 16; ++k) sum = madd(rows[i % 4 / 2][k], value(b.element[b.index(column, k)]), sum);
  }
}

template <int kGroups>
void hold_sums(float (&)[kGroups][4]) {}

template <typename Rows, int kGroups>
void multiply_tokens(float (&d)[kGroups][4], const Words& a, const TokenRows<kGroups * 8>& rows, int step) {
  const int lane = thread_index() % 32;
  for (int group = 0; group < kGroups; ++group) {
    const Words* row = rows.chunk[group * 8 + lane / 4];
    const uint32_t tokens[2] = {row[2 * step ^ lane / 4].word[lane % 4], row[(2 * step + 1) ^ lane / 4].word[lane % 4]};
    multiply<Rows>(d[group], a.word, tokens);
  }
}

#endif

}  // namespace lockstep::cuda
