// Wrappers of AMX instructions. There are eight tile registers, tmm0 to tmm7, of up to 16 rows of 64 bytes. The
// compiler's own intrinsics need literal numbers and do not declare which memory they access. Included by the files
// compiled for AMX, after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

constexpr int kTileSide = kTileSteps;  // a tile has as many rows, and a strip as many columns
constexpr int kStepBytes = 4;          // of a row of x: a pair of bfloat16, or four bytes

/// The operand of LDTILECFG.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int tile_rows, int bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};

/// Sets the shapes of the tiles and clears them. The caller must call `release` before other code uses the unit.
LOCKSTEP_LANES_INLINE void configure(const TileShapes& shapes) {
  asm volatile("ldtilecfg %0" ::"m"(shapes) : "memory");
}
LOCKSTEP_LANES_INLINE void release() { asm volatile("tilerelease"); }

/// Required before a load of memory written by C++, and after a store that C++ reads.
LOCKSTEP_LANES_INLINE void memory_fence() { asm volatile("" ::: "memory"); }

template <int kTile>
LOCKSTEP_LANES_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
/// `stride`: bytes between rows.
template <int kTile>
LOCKSTEP_LANES_INLINE void load_tile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile));
}
template <int kTile>
LOCKSTEP_LANES_INLINE void store_tile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile));
}

/// sums += x · weights, of pairs of bfloat16 to float32.
struct MultiplyPairs {
  template <int kSums, int kX, int kWeights>
  LOCKSTEP_LANES_INLINE void run() {
    asm volatile("tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2" ::"i"(kWeights), "i"(kX), "i"(kSums));
  }
};

/// sums += x · weights, of signed bytes times unsigned bytes to int32.
struct MultiplyBytes {
  template <int kSums, int kX, int kWeights>
  LOCKSTEP_LANES_INLINE void run() {
    asm volatile("tdpbsud %%tmm%c0, %%tmm%c1, %%tmm%c2" ::"i"(kWeights), "i"(kX), "i"(kSums));
  }
};

template <int kValue>
struct Number {
  static constexpr int value = kValue;
};

/// Calls work(Number<0>) … work(Number<V − 1>).
template <int V, typename Work>
LOCKSTEP_LANES_INLINE void for_strips(Work work) {
  work(Number<0>{});
  if constexpr (V > 1) work(Number<1>{});
  if constexpr (V > 2) work(Number<2>{});
  if constexpr (V > 3) work(Number<3>{});
}

/// Sets the shapes for `WideSums`: tiles 4 and 6 for full blocks, 5 and 7 for blocks of `last_steps`, if any.
LOCKSTEP_LANES_INLINE void configure_wide(int rows, int last_steps) {
  TileShapes shapes;
  for (int tile = 0; tile < 4; ++tile) shapes.set(tile, rows, 64);
  shapes.set(4, rows, kTileSide * kStepBytes);
  shapes.set(6, kTileSide, 64);
  if (last_steps > 0) {
    shapes.set(5, rows, last_steps * kStepBytes);
    shapes.set(7, last_steps, 64);
  }
  configure(shapes);
}

/// Prefetches with each tile of weights during multiplication. The core's own prefetchers do not follow tile loads, and
/// many lines at once would delay those. May reach beyond the memory that is read.
struct NothingAhead {
  LOCKSTEP_LANES_INLINE void ask(NothingAhead&) {}
};

/// Prefetches as many lines as the tile has, for weights read once from memory.
struct StreamAhead {
  const std::byte* next;

  LOCKSTEP_LANES_INLINE void ask(StreamAhead& ahead) {
#pragma GCC unroll 16
    for (int i = 0; i < kTileSide; ++i) __builtin_prefetch(ahead.next + i * 64);
    ahead.next += kTileSide * 64;
  }
};

/// Prefetches a few lines into the second-level cache.
struct LinesAhead {
  const std::byte* next = nullptr;
  int lines = 0;  // lines per call

  LOCKSTEP_LANES_INLINE void ask(LinesAhead& ahead) {
    for (int i = 0; i < ahead.lines; ++i) __builtin_prefetch(ahead.next + i * 64, 0, 2);
    ahead.next += ahead.lines * 64;
  }
};

/// Sums of up to 16 rows of x and V strips, in tiles 0 to V − 1.
template <typename Multiply, int V>
struct WideSums {
  LOCKSTEP_LANES_INLINE void open() {
    for_strips<V>([](auto v) { zero_tile<v.value>(); });
  }
  /// `stride`: elements between rows.
  LOCKSTEP_LANES_INLINE void resume(const float* from, int64_t stride) {
    memory_fence();
    for_strips<V>([&](auto v) { load_tile<v.value>(from + v.value * kLanes, stride * 4); });
  }
  template <typename Sum>
  LOCKSTEP_LANES_INLINE void close(Sum* to, int64_t stride) {
    for_strips<V>([&](auto v) { store_tile<v.value>(to + v.value * kLanes, stride * 4); });
    memory_fence();
  }
  LOCKSTEP_LANES_INLINE void add(const std::byte* w, int64_t weight_stride, const std::byte* x, int64_t x_stride,
                                 int64_t steps) {
    NothingAhead ahead;
    add(w, weight_stride, x, x_stride, steps, ahead);
  }
  template <typename Ahead>
  LOCKSTEP_LANES_INLINE void add(const std::byte* w, int64_t weight_stride, const std::byte* x, int64_t x_stride,
                                 int64_t steps, Ahead& ahead) {
    for (; steps >= kTileSide; steps -= kTileSide) {
      load_tile<4>(x, x_stride);
      for_strips<V>([&](auto v) {
        Ahead::ask(ahead);
        load_tile<6>(w + v.value * 64, weight_stride);
        Multiply::template run<v.value, 4, 6>();
      });
      w += kTileSide * weight_stride;
      x += kTileSide * kStepBytes;
    }
    if (steps == 0) return;
    load_tile<5>(x, x_stride);
    for_strips<V>([&](auto v) {
      load_tile<7>(w + v.value * 64, weight_stride);
      Multiply::template run<v.value, 5, 7>();
    });
  }
};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
