// Products of few rows with a packed panel, as in a decode step. The weights are read once, as one stream, and all
// segments of a plan are summed in one call, so a leaf of 8 steps costs no separate call.
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
// Up to seven rows keep their accumulators in registers. With eight rows those of the last strip stay in the
// first-level cache, which is faster than reading the weights twice. One or two rows are limited only by memory, and
// prefetch on machines where that helps (isa.h). With eight rows a core waiting for a line computes nothing, so each
// line is prefetched well ahead into the second-level cache (docs/performance.md). Included by the isa_*.cpp files
// after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/product.h"
#include "runtime/backends/cpu/kernels/row_sums.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

// The prefetch distance for eight rows, into the second-level cache.
constexpr int64_t kFarBytes = 16384;

/// The accumulators of R rows times V strips.
template <int R, int V>
using FewRowsSums = RowSums<R, V, R == 8 && V == 4 ? 3 : V>;

/// Adds the steps of a segment of a panel with weights at `w`.
template <typename Kind, int R, int V, bool kAhead>
LOCKSTEP_LANES_INLINE void add_segment(const FewRows& p, const std::byte* w, const Segment& segment,
                                       FewRowsSums<R, V>& sums, float* top) {
  constexpr bool kAsksFar = R == 8 && V * Kind::kStepBytes == 4 * kLine;  // every second row prefetches a line
  constexpr int kAheadLevel = R == 4 ? kToSecondLevel : kToFirstLevel;
  w += segment.begin * p.weight_stride;
  const std::byte* x = p.x + segment.begin * static_cast<int64_t>(sizeof(typename Kind::X));
  const std::byte* ahead = w + p.ahead + segment.steps * p.ahead_offset;
  const StreamPrefetch stream_prefetch = p.stream_prefetch;
  for (int64_t step = 0; step < segment.steps; ++step) {
    typename Kind::Vector weights[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) weights[v] = Kind::weights(w + v * Kind::kStepBytes);
    if constexpr (kAhead) __builtin_prefetch(ahead, 0, kAheadLevel);
    if (R <= 2 && stream_prefetch.far != 0) prefetch_stream<V * Kind::kStepBytes>(w, stream_prefetch);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      if (kAsksFar && r % 2 == 0) __builtin_prefetch(w + kFarBytes + r / 2 * kLine, 0, kToSecondLevel);
      const typename Kind::Vector broadcast = Kind::broadcast(x + r * p.x_stride);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        sums.set(r, v, top, Kind::accumulate(sums.get(r, v, top), weights[v], broadcast));
      }
    }
    // Keeps the compiler from moving accumulators out of registers.
    if constexpr (FewRowsSums<R, V>::kIsPartlyStored) asm volatile("" ::: "memory");
    w += p.weight_stride;
    x += sizeof(typename Kind::X);
    ahead += p.ahead_stride;
  }
}

template <typename Kind, int R, int V, bool kAhead>
static void few_rows_tile(const FewRows& p) {
  FewRowsSums<R, V> sums;
  const std::byte* weights = p.weights;
  for (int64_t panel = 0; panel < p.panels; ++panel, weights += p.panel_stride) {
    bool goes_on = false;  // continues the previous segment
    for (const Segment* segment = p.begin; segment != p.end; ++segment) {
      float* const top = p.stack + segment->level * kFewRowsFloats;
      if (segment->opens) {
        sums.open(top);
      } else if (!goes_on) {
        sums.resume(top);
      }
      add_segment<Kind, R, V, kAhead>(p, weights, *segment, sums, top);
      goes_on = segment + 1 != p.end && !segment[1].opens;
      if (!goes_on) sums.end_leaf(p, panel, segment->merges, segment->root, top);
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

/// With 16 half-width registers, one row takes all strips, and several rows take one strip at a time.
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
