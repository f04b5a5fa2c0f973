// Products of few rows with a packed panel: what a step of decoding does. The weights pass once, as one stream, and all
// segments of a plan are summed on the way, so a leaf of 8 steps costs no call of its own.
//
//            strip 0  strip 1  strip 2  strip 3
//   step s   w w w w  w w w w  w w w w  w w w w   ◄─ 256 bytes of the stream
//            ▼        ▼        ▼        ▼
//   row 0    a        a        a        a         ◄─ x[0][s], broadcast: one multiply-add for each accumulator
//   row 1    a        a        a        a         ◄─ x[1][s]
//
//   end of a leaf   a = top of the stack + a, as often as the leaf completes a subtree
//   end of a root   a, rounded, is stored as the result, and the stream goes on with the next panel
//
// Up to seven rows keep their accumulators in registers; of eight rows those of the last strip stay in the first-level
// cache, which is faster than passing the weights twice. There is no prefetch in a stream that memory alone holds back:
// the core's own prefetcher does better. With eight rows a core that waits for a line does no dots, so each line is
// asked for well ahead, into the second-level cache (docs/performance.md). Included by the isa_*.cpp files after
// lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/product.h"
#include "runtime/backends/cpu/kernels/rowwise.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

constexpr int64_t kLine = 64;
// How far ahead eight rows ask for a line of weights, into the second-level cache.
constexpr int64_t kFarBytes = 16384;
constexpr int kToFirstLevel = 3, kToSecondLevel = 2;  // of the caches, as __builtin_prefetch counts

/// What lies of a result from `column` on.
static TileResult result_from(TileResult result, int64_t column) {
  const auto bytes_before = [column](DType type) { return column * (type == DType::kFloat32 ? 4 : 2); };
  result.columns -= column;
  result.dst += bytes_before(result.dst_type);
  if (result.bias != nullptr) result.bias += bytes_before(result.bias_type);
  return result;
}

/// The accumulators of R rows times V strips.
template <typename Kind, int R, int V, bool kAhead>
struct FewRowsTile {
  static constexpr int kHeld = R == 8 && V == 4 ? 3 : V;  // strips in registers; another one stays where it is stored
  static constexpr bool kAsksFar = R == 8 && V * Kind::kStepBytes == 4 * kLine;  // every second row asks for a line
  static constexpr int kAheadLevel = R == 4 ? kToSecondLevel : kToFirstLevel;
  Lanes sums[R][kHeld];

  template <typename Work>
  [[gnu::always_inline]] static inline void each(Work work) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) work(r, v, r * kPanel + v * kLanes);
    }
  }

  [[gnu::always_inline]] inline void open(float* top) {
    each([&](int r, int v, int at) {
      if (v < kHeld) {
        sums[r][v] = zero();
      } else {
        store(top + at, zero());
      }
    });
  }
  [[gnu::always_inline]] inline void resume(const float* top) {
    each([&](int r, int v, int at) {
      if (v < kHeld) sums[r][v] = load(top + at);
    });
  }
  [[gnu::always_inline]] inline void close(float* top) {
    each([&](int r, int v, int at) {
      if (v < kHeld) store(top + at, sums[r][v]);
    });
  }
  /// Adds the sums to those under `top`.
  [[gnu::always_inline]] inline void merge(const float* top) {
    each([&](int r, int v, int at) {
      const Lanes under = load(top - kFewRowsFloats + at);
      if (v < kHeld) {
        sums[r][v] = under + sums[r][v];
      } else {
        store(const_cast<float*>(top) - kFewRowsFloats + at, under + load(top + at));
      }
    });
  }
  /// Rounds complete sums into the result of `root`.
  [[gnu::always_inline]] inline void finish(const FewRows& p, int64_t panel, int root, float* top) {
    const bool is_narrow = p.result.dst_type == DType::kBFloat16;
    const int64_t column = panel * kPanel;
    if (p.result.bias != nullptr || p.result.columns - column < V * kLanes || p.result.dst_type == DType::kFloat16) {
      close(top);
      return finish_through_stack(p, panel, root, top);
    }
    std::byte* const row = p.result.dst + root * p.root_stride;
    each([&](int r, int v, int at) {
      const Lanes sum = v < kHeld ? sums[r][v] : load(top + at);
      round_to_row(row + r * p.result.dst_stride, column + v * kLanes, is_narrow, sum);
    });
  }
  /// The same from `top`, where the sums lie: with a bias, for fewer columns or for other types.
  [[gnu::noinline]] static void finish_through_stack(const FewRows& p, int64_t panel, int root, const float* top) {
    TileResult result = result_from(p.result, panel * kPanel);
    result.sums = top;
    result.rows = R;
    if (result.columns > V * kLanes) result.columns = V * kLanes;
    result.dst += root * p.root_stride;
    finish_tile(result);
  }
  [[gnu::always_inline]] inline void add_steps(const FewRows& p, const std::byte* w, const Segment& segment,
                                               float* top) {
    w += segment.begin * p.weight_stride;
    const std::byte* x = p.x + segment.begin * static_cast<int64_t>(sizeof(typename Kind::X));
    const std::byte* ahead = w + p.ahead + segment.steps * p.ahead_offset;
    for (int64_t step = 0; step < segment.steps; ++step) {
      typename Kind::Vector weights[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) weights[v] = Kind::weights(w + v * Kind::kStepBytes);
      if constexpr (kAhead) __builtin_prefetch(ahead, 0, kAheadLevel);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        if (kAsksFar && r % 2 == 0) __builtin_prefetch(w + kFarBytes + r / 2 * kLine, 0, kToSecondLevel);
        const typename Kind::Vector broadcast = Kind::broadcast(x + r * p.x_stride);
#pragma GCC unroll 4
        for (int v = 0; v < kHeld; ++v) sums[r][v] = Kind::accumulate(sums[r][v], weights[v], broadcast);
        if constexpr (kHeld < V) {
          float* last = top + r * kPanel + kHeld * kLanes;
          store(last, Kind::accumulate(load(last), weights[kHeld], broadcast));
        }
      }
      if constexpr (kHeld < V) asm volatile("" ::: "memory");  // or the compiler moves other accumulators out
      w += p.weight_stride;
      x += sizeof(typename Kind::X);
      ahead += p.ahead_stride;
    }
  }
};

template <typename Kind, int R, int V, bool kAhead>
static void few_rows_tile(const FewRows& p) {
  FewRowsTile<Kind, R, V, kAhead> tile;
  const std::byte* weights = p.weights;
  for (int64_t panel = 0; panel < p.panels; ++panel, weights += p.panel_stride) {
    bool goes_on = false;  // from the segment before
    for (const Segment* segment = p.begin; segment != p.end; ++segment) {
      float* top = p.stack + segment->level * kFewRowsFloats;
      if (segment->opens) {
        tile.open(top);
      } else if (!goes_on) {
        tile.resume(top);
      }
      tile.add_steps(p, weights, *segment, top);
      goes_on = segment + 1 != p.end && !segment[1].opens;
      if (goes_on) continue;
      for (int i = 0; i < segment->merges; ++i, top -= kFewRowsFloats) tile.merge(top);
      if (segment->root >= 0) {
        tile.finish(p, panel, segment->root, top);
      } else {
        tile.close(top);
      }
    }
  }
}

template <typename Kind, int R, bool kAhead>
static void few_rows_strips(const FewRows& p) {
  switch (p.strips) {
    case 1: return few_rows_tile<Kind, R, 1, kAhead>(p);
    case 2: return few_rows_tile<Kind, R, 2, kAhead>(p);
    case 3: return few_rows_tile<Kind, R, 3, kAhead>(p);
    default: return few_rows_tile<Kind, R, 4, kAhead>(p);
  }
}

#if defined(__AVX512F__)

constexpr int kStreamedRows = 8;

template <typename Kind>
static void few_rows(const FewRows& p) {
  const bool ahead = p.ahead != 0;
  switch (p.rows) {
    case 1: return few_rows_strips<Kind, 1, false>(p);
    case 2: return few_rows_strips<Kind, 2, false>(p);
    case 3: return few_rows_strips<Kind, 3, false>(p);
    case 4: return ahead ? few_rows_strips<Kind, 4, true>(p) : few_rows_strips<Kind, 4, false>(p);
    case 5: return ahead ? few_rows_strips<Kind, 5, true>(p) : few_rows_strips<Kind, 5, false>(p);
    case 6: return ahead ? few_rows_strips<Kind, 6, true>(p) : few_rows_strips<Kind, 6, false>(p);
    case 7: return few_rows_strips<Kind, 7, false>(p);
    default: return few_rows_strips<Kind, 8, false>(p);
  }
}

#else

constexpr int kStreamedRows = 1;

/// With 16 registers of half the width, one row takes all strips and several rows take one strip at a time.
template <typename Kind>
static void few_rows(const FewRows& p) {
  if (p.rows == 1) return few_rows_strips<Kind, 1, false>(p);
  for (int strip = 0; strip < p.strips; ++strip) {
    FewRows part = p;
    part.weights += strip * Kind::kStepBytes;
    part.stack += strip * kLanes;
    part.result = result_from(p.result, strip * kLanes);
    switch (p.rows) {
      case 2: few_rows_tile<Kind, 2, 1, false>(part); break;
      case 3: few_rows_tile<Kind, 3, 1, false>(part); break;
      case 4: few_rows_tile<Kind, 4, 1, false>(part); break;
      case 5: few_rows_tile<Kind, 5, 1, false>(part); break;
      default: few_rows_tile<Kind, 6, 1, false>(part); break;
    }
  }
}

#endif

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
