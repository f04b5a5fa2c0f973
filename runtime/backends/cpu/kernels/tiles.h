// Products with AMX: 16 rows of x times a strip of weights, 16 pairs of columns at once. Packed panels already have the
// layout of tiles, so weights and x are read in place.
//
//                  strip v   strip v + 1            tmm6, tmm7: 16 steps of 64 bytes, weight_stride apart
//   rows  0 … 15   tmm0      tmm1       ◄── tmm4    16 rows of x, 64 bytes of each
//   rows 16 … 31   tmm2      tmm3       ◄── tmm5
//
// Up to 16 rows use four strips side by side instead.
//
// One multiplication adds to each element (Σ even columns) + (Σ odd columns) of its block of 16 steps, each a chain of
// fused multiply-adds starting at 0 ("Intel Architecture Instruction Set Extensions", TDPBF16PS; denormals count as 0).
// Sums therefore depend on the start of the blocks, which is always the first step of a leaf. A leaf's last block may
// have fewer steps. Included by isa_amx.cpp after product.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/product.h"
#include "runtime/backends/cpu/kernels/tile_unit.h"

#if defined(__AMX_BF16__)

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// Sets the shapes for `SquareSums` of 16 + `second` rows and blocks of `steps`.
LOCKSTEP_LANES_INLINE void configure_square(int second, int steps) {
  TileShapes shapes;
  for (int tile = 0; tile < 4; ++tile) shapes.set(tile, tile < 2 ? kTileSide : second, 64);
  shapes.set(4, kTileSide, steps * kStepBytes);
  shapes.set(5, second, steps * kStepBytes);
  shapes.set(6, steps, 64);
  shapes.set(7, steps, 64);
  configure(shapes);
}

/// Sums of 17 to 32 rows and V strips, 1 or 2, if all blocks have equally many steps.
template <int V>
struct SquareSums {
  LOCKSTEP_LANES_INLINE void open() {
    for_strips<V>([](auto v) {
      zero_tile<v.value>();
      zero_tile<2 + v.value>();
    });
  }
  LOCKSTEP_LANES_INLINE void resume(const float* from, int64_t stride) {
    memory_fence();
    for_strips<V>([&](auto v) {
      load_tile<v.value>(from + v.value * kLanes, stride * 4);
      load_tile<2 + v.value>(from + kTileSide * stride + v.value * kLanes, stride * 4);
    });
  }
  LOCKSTEP_LANES_INLINE void close(float* to, int64_t stride) {
    for_strips<V>([&](auto v) {
      store_tile<v.value>(to + v.value * kLanes, stride * 4);
      store_tile<2 + v.value>(to + kTileSide * stride + v.value * kLanes, stride * 4);
    });
    memory_fence();
  }
  LOCKSTEP_LANES_INLINE void add(const std::byte* w, int64_t weight_stride, const std::byte* x, int64_t x_stride,
                                 int64_t steps, LinesAhead& ahead) {
    const int64_t block = steps < kTileSide ? steps : kTileSide;
    const std::byte* second = x + kTileSide * x_stride;
    for (; steps > 0; steps -= block) {
      LinesAhead::ask(ahead);
      load_tile<6>(w, weight_stride);
      load_tile<4>(x, x_stride);
      MultiplyPairs::run<0, 4, 6>();
      load_tile<5>(second, x_stride);
      MultiplyPairs::run<2, 5, 6>();
      if constexpr (V > 1) {
        LinesAhead::ask(ahead);
        load_tile<7>(w + 64, weight_stride);
        MultiplyPairs::run<1, 4, 7>();
        MultiplyPairs::run<3, 5, 7>();
      }
      w += block * weight_stride;
      x += block * kStepBytes;
      second += block * kStepBytes;
    }
  }
};

/// Adds V strips of sums at `top` to those below them, `merges` times.
template <int V>
static void merge_levels(float* top, int64_t level_floats, int merges, int rows) {
  for (int r = 0; r < rows; ++r, top += kPanel) {
    Lanes sums[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[v] = load(top + v * kLanes);
    float* under = top;
    for (int i = 0; i < merges; ++i) {
      under -= level_floats;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[v] = load(under + v * kLanes) + sums[v];
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(under + v * kLanes, sums[v]);
  }
}

/// All segments for the rows [first, first + rows) and V strips from `strip` on.
template <typename Sums, int V, typename Ahead>
static void run_segments(const TiledRows& p, int64_t first, int rows, int strip, Ahead ahead) {
  bool goes_on = false;           // continues the previous segment
  const Segment* done = nullptr;  // a leaf still to be merged, while AMX computes the next one
  float* const stack = p.stack + first * kPanel + strip * kLanes;
  const std::byte* const x = p.x + first * p.x_stride;
  const std::byte* const weights = p.weights + strip * 64;
  const int64_t weight_stride = p.weight_stride, x_stride = p.x_stride, level_floats = p.level_floats;
  const Segment* const end = p.end;
  for (const Segment* segment = p.begin; segment != end; ++segment) {
    float* const top = stack + segment->level * level_floats;
    if (segment->opens) {
      Sums::open();
    } else if (!goes_on) {
      Sums::resume(top, kPanel);
    }
    Sums::add(weights + segment->begin * weight_stride, weight_stride, x + segment->begin * kStepBytes, x_stride,
              segment->steps, ahead);
    goes_on = segment + 1 != end && !segment[1].opens;
    if (goes_on) continue;
    if (done != nullptr) merge_levels<V>(stack + done->level * level_floats, level_floats, done->merges, rows);
    Sums::close(top, kPanel);
    done = segment->merges > 0 ? segment : nullptr;
  }
  if (done != nullptr) merge_levels<V>(stack + done->level * level_floats, level_floats, done->merges, rows);
}

/// Steps of all segments, which are contiguous.
LOCKSTEP_LANES_INLINE int64_t steps_of(const TiledRows& p) {
  return p.end[-1].begin + p.end[-1].steps - p.begin->begin;
}

/// The prefetches of unit `number` of `count` units of equal work, one for each of its `tiles` tiles of weights. The
/// last units may have none.
LOCKSTEP_LANES_INLINE LinesAhead share_of_next(const TiledRows& p, int64_t number, int64_t count, int64_t tiles) {
  if (p.next_weights == nullptr) return {};
  const int64_t all = steps_of(p) * p.weight_stride / 64;
  const int64_t lines = (all + count * tiles - 1) / (count * tiles);
  const int64_t begin = number * tiles * lines;
  if (begin >= all) return {};
  return {p.next_weights + begin * 64, static_cast<int>(lines)};
}

template <typename Ahead>
static void run_wide_block(const TiledRows& p, int64_t first, int rows, Ahead ahead) {
  switch (p.strips) {
    case 1: return run_segments<WideSums<MultiplyPairs, 1>, 1>(p, first, rows, 0, ahead);
    case 2: return run_segments<WideSums<MultiplyPairs, 2>, 2>(p, first, rows, 0, ahead);
    case 3: return run_segments<WideSums<MultiplyPairs, 3>, 3>(p, first, rows, 0, ahead);
    default: return run_segments<WideSums<MultiplyPairs, 4>, 4>(p, first, rows, 0, ahead);
  }
}

static void run_wide(const TiledRows& p, int last_steps) {
  const int64_t blocks = (p.rows + kTileSide - 1) / kTileSide;
  const int64_t tiles = steps_of(p) / kTileSide * p.strips;
  int configured = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = p.rows * block / blocks;
    const int rows = static_cast<int>(p.rows * (block + 1) / blocks - first);
    if (rows != configured) configure_wide(configured = rows, last_steps);
    if (p.next_weights == nullptr || tiles == 0) {
      run_wide_block(p, first, rows, NothingAhead{});
    } else if (blocks == 1) {
      run_wide_block(p, first, rows, StreamAhead{p.next_weights});
    } else {
      run_wide_block(p, first, rows, share_of_next(p, block, blocks, tiles));
    }
  }
}

template <int V>
static void run_pair_of_strips(const TiledRows& p, int64_t first, int rows, int strip, LinesAhead ahead) {
  if (rows > kTileSide) return run_segments<SquareSums<V>, V>(p, first, rows, strip, ahead);
  run_segments<WideSums<MultiplyPairs, V>, V>(p, first, rows, strip, ahead);
}

/// Two strips at a time, so that their weights stay in the first-level cache for all rows.
static void run_square(const TiledRows& p, int last_steps) {
  constexpr int kMostRows = 2 * kTileSide;
  const int64_t blocks = (p.rows + kMostRows - 1) / kMostRows;
  const int64_t passes = (p.strips + 1) / 2;
  const int64_t tiles = steps_of(p) / (last_steps > 0 ? last_steps : kTileSide) * (p.strips > 1 ? 2 : 1);
  int configured = 0;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int strip = static_cast<int>(2 * pass);
    for (int64_t block = 0; block < blocks; ++block) {
      // All blocks except the last are full, because a tile of 16 rows costs no more than one of 9.
      const int64_t first = block * kMostRows;
      const int rows = static_cast<int>(p.rows - first < kMostRows ? p.rows - first : kMostRows);
      if (rows != configured) {
        configured = rows;
        if (rows > kTileSide) {
          configure_square(rows - kTileSide, last_steps > 0 ? last_steps : kTileSide);
        } else {
          configure_wide(rows, last_steps);
        }
      }
      const LinesAhead ahead = share_of_next(p, pass * blocks + block, passes * blocks, tiles);
      if (strip + 1 < p.strips) {
        run_pair_of_strips<2>(p, first, rows, strip, ahead);
      } else {
        run_pair_of_strips<1>(p, first, rows, strip, ahead);
      }
    }
  }
}

/// See TiledRows.
static void tiled_rows(const TiledRows& p) {
  const int64_t steps = p.begin->steps;
  const int last_steps = static_cast<int>(steps % kTileSide);
  const bool has_two_sizes = last_steps != 0 && steps > kTileSide;
  if (p.rows <= kMostStreamedRows || has_two_sizes) {
    run_wide(p, last_steps);
  } else {
    run_square(p, last_steps);
  }
  release();
}

/// The same for the few rows and columns of a Product. The sums go through memory, because AMX and vector registers are
/// separate.
struct TiledPairs : Pairs {
  static constexpr bool kIsTiled = true;

  template <int R, int V>
  static void add_steps(const Product& p, const std::byte* w, const std::byte* x, int64_t steps, Lanes (&sums)[R][V]) {
    alignas(64) float memory[R * V * kLanes];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) store(memory + (r * V + v) * kLanes, sums[r][v]);
    }
    configure_wide(R, static_cast<int>(steps % kTileSide));
    WideSums<MultiplyPairs, V>::resume(memory, V * kLanes);
    WideSums<MultiplyPairs, V>::add(w, p.weight_stride, x, p.x_stride, steps);
    WideSums<MultiplyPairs, V>::close(memory, V * kLanes);
    release();
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = load(memory + (r * V + v) * kLanes);
    }
  }
};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA

#endif
