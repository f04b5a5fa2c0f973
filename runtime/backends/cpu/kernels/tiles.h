// Products on a unit that multiplies tiles (AMX): 16 rows of x times a strip of weights, 16 pairs of columns at once.
// Packed panels are such tiles already, so weights and x are read where they lie.
//
//                  strip v   strip v + 1            tmm6, tmm7: 16 steps of 64 bytes, weight_stride apart
//   rows  0 … 15   tmm0      tmm1       ◄── tmm4    16 rows of x, 64 bytes of each
//   rows 16 … 31   tmm2      tmm3       ◄── tmm5
//
// With up to 16 rows there are four strips side by side instead.
//
// One multiplication adds to each element (Σ even columns) + (Σ odd columns) of its block of 16 steps, each of the two a
// chain of fused multiply-adds from 0 on ("Intel Architecture Instruction Set Extensions", TDPBF16PS; denormals count as
// 0). So sums depend on where blocks begin: at the first step of a leaf, everywhere. A leaf's last block may have fewer
// steps. Included by isa_amx.cpp after product.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/product.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

constexpr int kTileSide = 16;  // rows of a tile, and strips' width
constexpr int kStepBytes = 4;  // of a row of x: a pair

/// What LDTILECFG reads.
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

/// The intrinsics do not say that they read and write memory.
LOCKSTEP_LANES_INLINE void memory_fence() { asm volatile("" ::: "memory"); }

LOCKSTEP_LANES_INLINE void configure(const TileShapes& shapes) {
  asm volatile("ldtilecfg %0" ::"m"(shapes) : "memory");
}

/// Shapes for sums in tiles 0 to 3, of which `second` rows belong to tiles 2 and 3.
LOCKSTEP_LANES_INLINE void configure_square(int first, int second, int steps) {
  TileShapes shapes;
  for (int tile = 0; tile < 4; ++tile) shapes.set(tile, tile < 2 ? first : second, 64);
  shapes.set(4, first, steps * kStepBytes);
  shapes.set(5, second, steps * kStepBytes);
  shapes.set(6, steps, 64);
  shapes.set(7, steps, 64);
  configure(shapes);
}

/// Shapes for four strips side by side: tiles 4 and 6 for whole blocks, 5 and 7 for the last one of a leaf.
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

/// Sums of up to 16 rows of x and V strips; `last_steps` is the size of the shorter blocks, of tiles 5 and 7.
template <int V>
struct WideSums {
  [[gnu::always_inline]] static inline void open() {
    _tile_zero(0);
    if constexpr (V > 1) _tile_zero(1);
    if constexpr (V > 2) _tile_zero(2);
    if constexpr (V > 3) _tile_zero(3);
  }
  [[gnu::always_inline]] static inline void resume(const float* from, int64_t stride) {
    const int64_t bytes = stride * 4;
    memory_fence();
    _tile_loadd(0, from, bytes);
    if constexpr (V > 1) _tile_loadd(1, from + kLanes, bytes);
    if constexpr (V > 2) _tile_loadd(2, from + 2 * kLanes, bytes);
    if constexpr (V > 3) _tile_loadd(3, from + 3 * kLanes, bytes);
  }
  [[gnu::always_inline]] static inline void close(float* to, int64_t stride) {
    const int64_t bytes = stride * 4;
    _tile_stored(0, to, bytes);
    if constexpr (V > 1) _tile_stored(1, to + kLanes, bytes);
    if constexpr (V > 2) _tile_stored(2, to + 2 * kLanes, bytes);
    if constexpr (V > 3) _tile_stored(3, to + 3 * kLanes, bytes);
    memory_fence();
  }
  [[gnu::always_inline]] static inline void add(const std::byte* w, int64_t weight_stride, const std::byte* x,
                                                int64_t x_stride, int64_t steps) {
    for (; steps >= kTileSide; steps -= kTileSide) {
      _tile_loadd(4, x, x_stride);
      _tile_loadd(6, w, weight_stride);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (V > 1) {
        _tile_loadd(6, w + 64, weight_stride);
        _tile_dpbf16ps(1, 4, 6);
      }
      if constexpr (V > 2) {
        _tile_loadd(6, w + 128, weight_stride);
        _tile_dpbf16ps(2, 4, 6);
      }
      if constexpr (V > 3) {
        _tile_loadd(6, w + 192, weight_stride);
        _tile_dpbf16ps(3, 4, 6);
      }
      w += kTileSide * weight_stride;
      x += kTileSide * kStepBytes;
    }
    if (steps == 0) return;
    _tile_loadd(5, x, x_stride);
    _tile_loadd(7, w, weight_stride);
    _tile_dpbf16ps(0, 5, 7);
    if constexpr (V > 1) {
      _tile_loadd(7, w + 64, weight_stride);
      _tile_dpbf16ps(1, 5, 7);
    }
    if constexpr (V > 2) {
      _tile_loadd(7, w + 128, weight_stride);
      _tile_dpbf16ps(2, 5, 7);
    }
    if constexpr (V > 3) {
      _tile_loadd(7, w + 192, weight_stride);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
};

/// Sums of 17 to 32 rows and V strips, 1 or 2, where all blocks have equally many steps.
template <int V>
struct SquareSums {
  [[gnu::always_inline]] static inline void open() {
    _tile_zero(0);
    _tile_zero(2);
    if constexpr (V > 1) {
      _tile_zero(1);
      _tile_zero(3);
    }
  }
  [[gnu::always_inline]] static inline void resume(const float* from, int64_t stride) {
    const int64_t bytes = stride * 4;
    memory_fence();
    _tile_loadd(0, from, bytes);
    _tile_loadd(2, from + kTileSide * stride, bytes);
    if constexpr (V > 1) {
      _tile_loadd(1, from + kLanes, bytes);
      _tile_loadd(3, from + kTileSide * stride + kLanes, bytes);
    }
  }
  [[gnu::always_inline]] static inline void close(float* to, int64_t stride) {
    const int64_t bytes = stride * 4;
    _tile_stored(0, to, bytes);
    _tile_stored(2, to + kTileSide * stride, bytes);
    if constexpr (V > 1) {
      _tile_stored(1, to + kLanes, bytes);
      _tile_stored(3, to + kTileSide * stride + kLanes, bytes);
    }
    memory_fence();
  }
  [[gnu::always_inline]] static inline void add(const std::byte* w, int64_t weight_stride, const std::byte* x,
                                                int64_t x_stride, int64_t steps) {
    const int64_t block = steps < kTileSide ? steps : kTileSide;
    const std::byte* second = x + kTileSide * x_stride;
    for (; steps > 0; steps -= block) {
      _tile_loadd(6, w, weight_stride);
      _tile_loadd(4, x, x_stride);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, second, x_stride);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (V > 1) {
        _tile_loadd(7, w + 64, weight_stride);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
      }
      w += block * weight_stride;
      x += block * kStepBytes;
      second += block * kStepBytes;
    }
  }
};

/// Adds V strips of sums on `top` to those under them, `merges` times.
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
template <typename Sums, int V>
static void run_segments(const TiledRows& p, int64_t first, int rows, int strip) {
  bool goes_on = false;           // from the segment before
  const Segment* done = nullptr;  // a leaf that is still to be merged: meanwhile the unit is at the next one
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
              segment->steps);
    goes_on = segment + 1 != end && !segment[1].opens;
    if (goes_on) continue;
    if (done != nullptr) merge_levels<V>(stack + done->level * level_floats, level_floats, done->merges, rows);
    Sums::close(top, kPanel);
    done = segment->merges > 0 ? segment : nullptr;
  }
  if (done != nullptr) merge_levels<V>(stack + done->level * level_floats, level_floats, done->merges, rows);
}

/// Asks for part `part` of `parts` of what comes next, into the second-level cache.
static void ask_for(const LinesAhead& ahead, int64_t part, int64_t parts) {
  const int64_t end = ahead.rows * (part + 1) / parts;
  for (int64_t row = ahead.rows * part / parts; row < end; ++row) {
    const std::byte* line = ahead.data + row * ahead.stride;
    for (int64_t i = 0; i < ahead.lines; ++i) __builtin_prefetch(line + i * 64, 0, 2);
  }
}

static void run_wide(const TiledRows& p, int last_steps) {
  const int64_t blocks = (p.rows + kTileSide - 1) / kTileSide;
  int configured = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = p.rows * block / blocks;
    const int rows = static_cast<int>(p.rows * (block + 1) / blocks - first);
    if (rows != configured) configure_wide(configured = rows, last_steps);
    ask_for(p.weights_ahead, block, blocks);
    switch (p.strips) {
      case 1: run_segments<WideSums<1>, 1>(p, first, rows, 0); break;
      case 2: run_segments<WideSums<2>, 2>(p, first, rows, 0); break;
      case 3: run_segments<WideSums<3>, 3>(p, first, rows, 0); break;
      default: run_segments<WideSums<4>, 4>(p, first, rows, 0); break;
    }
  }
}

template <int V>
static void run_pair_of_strips(const TiledRows& p, int64_t first, int rows, int strip) {
  if (rows > kTileSide) return run_segments<SquareSums<V>, V>(p, first, rows, strip);
  run_segments<WideSums<V>, V>(p, first, rows, strip);
}

/// Two strips at a time, so that their weights stay in the first-level cache while all rows pass.
static void run_square(const TiledRows& p, int last_steps) {
  constexpr int kMostRows = 2 * kTileSide;
  const int64_t blocks = (p.rows + kMostRows - 1) / kMostRows;
  const int64_t passes = (p.strips + 1) / 2;
  int configured = 0;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int strip = static_cast<int>(2 * pass);
    for (int64_t block = 0; block < blocks; ++block) {
      // All blocks but the last are full: a tile of 16 rows costs no more than one of 9.
      const int64_t first = block * kMostRows;
      const int rows = static_cast<int>(p.rows - first < kMostRows ? p.rows - first : kMostRows);
      if (rows != configured) {
        configured = rows;
        if (rows > kTileSide) {
          configure_square(kTileSide, rows - kTileSide, last_steps > 0 ? last_steps : kTileSide);
        } else {
          configure_wide(rows, last_steps);
        }
      }
      ask_for(p.weights_ahead, pass * blocks + block, passes * blocks);
      if (strip + 1 < p.strips) {
        run_pair_of_strips<2>(p, first, rows, strip);
      } else {
        run_pair_of_strips<1>(p, first, rows, strip);
      }
    }
  }
}

/// See TiledRows.
static void tiled_rows(const TiledRows& p) {
  const int64_t steps = p.begin->steps;
  const int last_steps = static_cast<int>(steps % kTileSide);
  const bool has_two_sizes = last_steps != 0 && steps > kTileSide;
  if (p.rows <= kTileSide || has_two_sizes) {
    run_wide(p, last_steps);
  } else {
    run_square(p, last_steps);
  }
  _tile_release();
}

/// The same for the few rows and columns of a Product, whose sums pass through memory: the registers of the two units
/// know nothing of each other.
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
    WideSums<V>::resume(memory, V * kLanes);
    WideSums<V>::add(w, p.weight_stride, x, p.x_stride, steps);
    WideSums<V>::close(memory, V * kLanes);
    _tile_release();
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = load(memory + (r * V + v) * kLanes);
    }
  }
};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
