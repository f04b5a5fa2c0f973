// Attention of up to 6 rows over one tile in pairs of bfloat16. Scores, softmax and the sums of values stay in
// registers. Weights (attend_exponents.h) are rounded to bfloat16, and their sums use the rounded ones. Included by the
// isa_*.cpp files after product.h.
#pragma once

#include "runtime/backends/cpu/kernels/attend_exponents.h"
#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/product.h"
#include "runtime/backends/cpu/kernels/softmax.h"

#if defined(__AVX512BF16__)

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// 2^x with a relative error below 2^-13, for weights that are then rounded to bfloat16 (2^-9): 0 for −∞, NaN for NaN,
/// and exact for integers. The cubic is the fit of 2^f with the least error over [0, 1] and value 1 at 0.
LOCKSTEP_LANES_INLINE Lanes coarse_exp2(Lanes x) {
  const Lanes f = {_mm512_reduce_ps(x.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  Lanes p = fma(splat(0.07706699f), f, splat(0.22764506f));
  p = fma(p, f, splat(0.69511677f));
  p = fma(p, f, splat(1.0f));
  return {_mm512_scalef_ps(p.v, x.v)};
}

/// Turns a row's products with the keys of V strips from `first` on into weights, [V · kStrip] bfloat16.
template <bool kIsShaped, bool kIsWhole, int V>
LOCKSTEP_LANES_INLINE void weights_of_row(const AttendedTile& tile, int row, int first, const Lanes (&products)[V],
                                          std::byte* weights) {
  Lanes exponents[V];
  Lanes sum = exponents_of_row<kIsShaped, kIsWhole, V>(tile, row, first, products, exponents);
  const __m512bh ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));
#pragma GCC unroll 2
  for (int v = 0; v < V; v += 2) {
    const __m512bh pairs = _mm512_cvtne2ps_pbh(coarse_exp2(exponents[v + 1]).v, coarse_exp2(exponents[v]).v);
    _mm512_storeu_si512(weights + v * kStrip * 2, reinterpret_cast<__m512i>(pairs));
    sum.v = _mm512_dpbf16_ps(sum.v, pairs, ones);
  }
  store(tile.sum + row * kLanes, sum);
}

/// One instance for all numbers of rows, because the code is long.
template <bool kIsWhole, int V>
[[gnu::noinline]] static void shaped_weights_of_row(const AttendedTile& tile, int row, int first,
                                                    const Lanes (&products)[V], std::byte* weights) {
  weights_of_row<true, kIsWhole, V>(tile, row, first, products, weights);
}

/// Prefetches V strips' worth of lines of a later tile into the second-level cache, since the first level holds the
/// current tile.
template <int V>
LOCKSTEP_LANES_INLINE void ask_for(const std::byte* lines) {
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) __builtin_prefetch(lines + v * 64, 0, 2);
}

/// Weights [R, kPanel] bfloat16 of the keys in strips [first, first + V).
template <bool kIsShaped, bool kIsWhole, int R, int V, bool kAsksAhead = false>
static void weights_of_tile(const AttendedTile& tile, int first, std::byte* weights) {
  Lanes products[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) products[r][v] = zero();
  }
  const std::byte* keys = tile.keys + first * Pairs::kStepBytes;
  const std::byte* ahead = tile.next_keys;
  const std::byte* q = tile.q;
  const int64_t q_stride = tile.q_stride;
  for (int64_t step = 0; step < tile.steps; ++step) {
    Pairs::Vector key[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) key[v] = Pairs::weights(keys + v * Pairs::kStepBytes);
    if constexpr (kAsksAhead) {
      ask_for<V>(ahead);
      ahead += V * Pairs::kStepBytes;
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Pairs::Vector broadcast = Pairs::broadcast(q + r * q_stride);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) products[r][v] = Pairs::accumulate(products[r][v], key[v], broadcast);
    }
    keys += kPanelStrips * Pairs::kStepBytes;
    q += sizeof(Pairs::X);
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    std::byte* to = weights + (r * kPanel + first * kLanes) * 2;
    if constexpr (kIsShaped) {
      shaped_weights_of_row<kIsWhole, V>(tile, r, first * kLanes, products[r], to);
    } else {
      weights_of_row<false, kIsWhole, V>(tile, r, first * kLanes, products[r], to);
    }
  }
}

/// Whether `count` strips of pairs hold neither a NaN nor an infinity.
static bool are_finite(const std::byte* pairs, int count) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  __mmask32 found = 0;
  for (int v = 0; v < count; ++v) {
    const __m512i bits = _mm512_and_si512(_mm512_loadu_si512(pairs + v * Pairs::kStepBytes), exponent);
    found |= _mm512_cmpeq_epi16_mask(bits, exponent);
  }
  return found == 0;
}

/// Adds a whole tile's values, times the weights, to V strips of the result, and prefetches the next ones.
template <int R, int V>
static void add_whole_values(const AttendedTile& tile, const std::byte* weights, int64_t column) {
  float* result = tile.result + column;
  const int64_t columns = tile.columns;
  Lanes sums[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[r][v] = load(result + r * columns + v * kLanes);
  }
  const std::byte* values = tile.values + column * 4;
  const std::byte* ahead = tile.next_values + column * 4;
  for (int pair = 0; pair < kPanel / 2; ++pair) {
    Pairs::Vector value[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) value[v] = Pairs::weights(values + v * Pairs::kStepBytes);
    ask_for<V>(ahead);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Pairs::Vector weight = Pairs::broadcast(weights + r * kPanel * 2);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = Pairs::accumulate(sums[r][v], value[v], weight);
    }
    values += columns * 4;
    ahead += columns * 4;
    weights += 4;
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(result + r * columns + v * kLanes, sums[r][v]);
  }
}

template <int R>
static void add_whole_values(const AttendedTile& tile, const std::byte* weights) {
  for (int64_t column = 0; column < tile.columns; column += kPanel) {
    switch (tile.columns - column) {
      case kStrip: add_whole_values<R, 1>(tile, weights, column); break;
      case 2 * kStrip: add_whole_values<R, 2>(tile, weights, column); break;
      case 3 * kStrip: add_whole_values<R, 3>(tile, weights, column); break;
      default: add_whole_values<R, 4>(tile, weights, column); break;
    }
  }
}

/// Adds the values of pairs [first, last), times the weights, to a panel of the result's columns. Values invisible to a
/// row have weight 0, but 0 · ∞ is NaN. If there are infinities, each row therefore gets a copy of the values without
/// the invisible ones.
template <int R>
static void add_values(const AttendedTile& tile, const std::byte* weights, int first, int last, int64_t column) {
  Product product;
  product.strips = static_cast<int>(tile.columns - column < kPanel ? tile.columns - column : kPanel) / kStrip;
  product.weight_stride = tile.columns * 4;
  product.weights = tile.values + first * product.weight_stride + column * 4;
  product.x = weights + first * 4;
  product.x_stride = kPanel * 2;
  product.steps = last - first;
  product.sums = tile.result + column;
  product.sums_stride = tile.columns;
  product.rows = R;
  bool is_clean = true;
  if (!tile.is_whole) {
    int seen_first = 0, seen_last = kPanel;  // by every row
    for (int r = 0; r < R; ++r) {
      seen_first = tile.begin[r] > seen_first ? tile.begin[r] : seen_first;
      seen_last = tile.end[r] < seen_last ? tile.end[r] : seen_last;
    }
    for (int pair = first; is_clean && pair < last; ++pair) {
      if (2 * pair >= seen_first && 2 * pair + 2 <= seen_last) continue;
      is_clean = are_finite(product.weights + (pair - first) * product.weight_stride, product.strips);
    }
  }
  if (is_clean) return product_rows<Pairs, R>(product);
  alignas(64) uint32_t clean[kPanel / 2 * kPanel];
  for (int r = 0; r < R; ++r) {
    const std::byte* from = product.weights;
    for (int pair = first; pair < last; ++pair, from += product.weight_stride) {
      const auto sees = [&](int token) { return token >= tile.begin[r] && token < tile.end[r]; };
      const uint32_t seen = (sees(2 * pair) ? 0xffffu : 0u) | (sees(2 * pair + 1) ? 0xffff0000u : 0u);
      const __m512i mask = _mm512_set1_epi32(static_cast<int>(seen));
      for (int v = 0; v < product.strips; ++v) {
        const __m512i bits = _mm512_and_si512(_mm512_loadu_si512(from + v * Pairs::kStepBytes), mask);
        _mm512_store_si512(clean + ((pair - first) * kPanelStrips + v) * kLanes, bits);
      }
    }
    Product row = product;
    row.weights = reinterpret_cast<const std::byte*>(clean);
    row.weight_stride = kPanel * 4;
    row.x += r * product.x_stride;
    row.sums += r * product.sums_stride;
    row.rows = 1;
    product_rows<Pairs, 1>(row);
  }
}

template <bool kIsShaped, int R>
static void attend_rows(const AttendedTile& tile) {
  alignas(64) std::byte weights[R * kPanel * 2];
  int first = 0, last = kPanel;
  if (tile.is_whole && tile.next_keys != nullptr) {
    weights_of_tile<kIsShaped, true, R, 4, true>(tile, 0, weights);
    return add_whole_values<R>(tile, weights);
  }
  if (tile.is_whole) {
    weights_of_tile<kIsShaped, true, R, 4>(tile, 0, weights);
  } else {
    first = kPanel, last = 0;
    for (int r = 0; r < R; ++r) {
      if (tile.begin[r] >= tile.end[r]) continue;
      first = tile.begin[r] < first ? tile.begin[r] : first;
      last = tile.end[r] > last ? tile.end[r] : last;
    }
    if (first >= last) return;
    // In halves of a tile, so that a key's weight is added to the same lane of the sum for any number of rows.
    if (last <= kPanel / 2) {
      weights_of_tile<kIsShaped, false, R, 2>(tile, 0, weights);
    } else if (first >= kPanel / 2) {
      weights_of_tile<kIsShaped, false, R, 2>(tile, 2, weights);
    } else {
      weights_of_tile<kIsShaped, false, R, 4>(tile, 0, weights);
    }
  }
  for (int64_t column = 0; column < tile.columns; column += kPanel) {
    add_values<R>(tile, weights, first / 2, (last + 1) / 2, column);
  }
}

template <int R>
static void attend_rows(const AttendedTile& tile) {
  if (tile.soft_cap != 0.0f || tile.slope != nullptr) return attend_rows<true, R>(tile);
  attend_rows<false, R>(tile);
}

[[maybe_unused]] static void attend_pairs(const AttendedTile& tile) {
  switch (tile.rows) {
    case 1: return attend_rows<1>(tile);
    case 2: return attend_rows<2>(tile);
    case 3: return attend_rows<3>(tile);
    case 4: return attend_rows<4>(tile);
    case 5: return attend_rows<5>(tile);
    default: return attend_rows<6>(tile);
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA

#endif
