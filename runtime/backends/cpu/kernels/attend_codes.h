// Attention of up to 6 rows over one tile of 8-bit integers, with products of bytes. Included by bytes_*.cpp files of
// instruction sets with AVX-512 VNNI after dots_bytes.h.
//
//   query     16-bit integers of one scale in two parts: 256 · high + low        quantised once for all tiles
//   score     (256 · Σ high · key + Σ low · key) · scale of the key · scale of the query
//   weight    2^(score · log2 e − origin) · scale of the value, as a 16-bit integer of the tile's largest / 65535
//   result    += (256 · Σ high · value + Σ low · value) · that scale
//
// All sums are exact integers, so they do not depend on rows, and a key that a row does not see has weight 0, whatever
// its memory holds.
#pragma once

#include "runtime/backends/cpu/kernels/attend_exponents.h"
#include "runtime/backends/cpu/kernels/coded.h"
#include "runtime/backends/cpu/kernels/dots_bytes.h"
#include "runtime/backends/cpu/kernels/lanes.h"

#if defined(__AVX512VNNI__)

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

constexpr int kCodeColumns = columns_of_step(DotKind::kBytes);
constexpr int kTokenGroups = kPanel / 4;  // of a tile: four tokens are multiplied by one instruction
constexpr float kMostQuery = 32512.0f;    // 127 · 256
constexpr float kMostWeight = 65535.0f;

/// The weights of up to 6 rows over a tile, in two parts.
struct CodeWeights {
  alignas(64) uint8_t high[kTileRows * kPanel];
  alignas(64) uint8_t low[kTileRows * kPanel];
  float scale[kTileRows];
};

LOCKSTEP_LANES_INLINE Step codes_at(const std::byte* p) { return _mm512_loadu_si512(p); }

LOCKSTEP_LANES_INLINE __m512i four_at(const void* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return _mm512_set1_epi32(four);
}

/// 256 · high + low, rounded once: both sums are exact in float32.
LOCKSTEP_LANES_INLINE Lanes joined(Integers high, Integers low) {
  return fma(to_floats(high), splat(256.0f), to_floats(low));
}

/// 2^x with a relative error below 2^-22: 0 below 2^-100, so that no product is a denormal number, which would take
/// many times as long; NaN for NaN; exact for integers. The Taylor series of 2^r up to r^6 for |r| <= 1/2.
LOCKSTEP_LANES_INLINE Lanes exp2(Lanes x) {
  const Lanes r = {_mm512_reduce_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  Lanes p = fma(splat(1.54035304e-4f), r, splat(1.33335581e-3f));
  p = fma(p, r, splat(9.61812911e-3f));
  p = fma(p, r, splat(5.55041087e-2f));
  p = fma(p, r, splat(2.40226507e-1f));
  p = fma(p, r, splat(6.93147181e-1f));
  p = fma(p, r, splat(1.0f));
  const __mmask16 is_seen = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(-100.0f), _CMP_NLT_UQ);
  return {_mm512_maskz_scalef_ps(is_seen, p.v, (x - r).v)};
}

/// The products of R queries with the keys, [R, kPanel] float32. Prefetches the next tile's keys.
template <int R>
static void code_products(const AttendedTile& tile, float* products) {
  constexpr int V = 2;  // strips at a time: two sums for each
  const int64_t part_bytes = tile.steps * kCodeColumns;
  const float* const scales = reinterpret_cast<const float*>(tile.keys + tile.steps * kPanel * kCodeColumns);
  const std::byte* ahead = tile.next_keys != nullptr ? tile.next_keys : tile.keys;
  for (int first = 0; first < kPanelStrips; first += V) {
    Integers high[R][V], low[R][V];
    QueryScale query[R];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      __builtin_memcpy(&query[r], tile.q + r * tile.q_stride + 2 * part_bytes, sizeof query[r]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        high[r][v] = splat_integer(query[r].high_offset);
        low[r][v] = splat_integer(query[r].low_offset);
      }
    }
    const std::byte* keys = tile.keys + first * kLineBytes;
    const std::byte* q = tile.q;
    for (int64_t step = 0; step < tile.steps; ++step) {
      __m512i key[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        key[v] = codes_at(keys + v * kLineBytes);
        __builtin_prefetch(ahead + v * kLineBytes, 0, 2);
      }
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        const __m512i high_part = four_at(q + r * tile.q_stride);
        const __m512i low_part = four_at(q + r * tile.q_stride + part_bytes);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
          high[r][v] = dot(high[r][v], key[v], high_part);
          low[r][v] = dot(low[r][v], key[v], low_part);
        }
      }
      keys += kPanelStrips * kLineBytes;
      ahead += V * kLineBytes;
      q += kCodeColumns;
    }
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      const Lanes scale = load(scales + (first + v) * kLanes);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        store(products + r * kPanel + (first + v) * kLanes,
              joined(high[r][v], low[r][v]) * scale * splat(query[r].scale));
      }
    }
  }
}

/// Turns a row's products into its weights. One instance for all numbers of rows.
template <bool kIsShaped, bool kIsWhole>
[[gnu::noinline]] static void code_weights_of_row(const AttendedTile& tile, int row, const float* products,
                                                  CodeWeights& weights) {
  const float* const scales = reinterpret_cast<const float*>(tile.values + tile.columns * kPanel);
  Lanes x[kPanelStrips], exponents[kPanelStrips];
#pragma GCC unroll 4
  for (int v = 0; v < kPanelStrips; ++v) x[v] = load(products + row * kPanel + v * kLanes);
  Lanes sum = exponents_of_row<kIsShaped, kIsWhole, kPanelStrips>(tile, row, 0, x, exponents);
  Lanes most = zero();
  __mmask16 not_numbers = 0;
#pragma GCC unroll 4
  for (int v = 0; v < kPanelStrips; ++v) {
    const Lanes weight = exp2(exponents[v]);
    sum = sum + weight;
    x[v] = weight * load(scales + v * kLanes);
    if constexpr (!kIsWhole) x[v].v = _mm512_maskz_mov_ps(seen_of(tile, row, v * kLanes), x[v].v);
    not_numbers |= _mm512_cmp_ps_mask(x[v].v, x[v].v, _CMP_UNORD_Q);
    most = larger(x[v], most);
  }
  store(tile.sum + row * kLanes, sum);
  const float largest = largest_of(most);
  const Lanes inverse = splat(largest >= 0x1p-100f ? kMostWeight / largest : 0.0f);
  weights.scale[row] = not_numbers != 0 ? __builtin_nanf("") : largest / kMostWeight;
#pragma GCC unroll 4
  for (int v = 0; v < kPanelStrips; ++v) {
    const __m512i integers = _mm512_cvtps_epi32((x[v] * inverse).v);
    const int64_t at = row * kPanel + v * kLanes;
    _mm_store_si128(reinterpret_cast<__m128i*>(weights.high + at),
                    _mm512_cvtepi32_epi8(_mm512_srli_epi32(integers, 8)));
    _mm_store_si128(reinterpret_cast<__m128i*>(weights.low + at), _mm512_cvtepi32_epi8(integers));
  }
}

/// Adds the values, times the weights, to V strips of the result. Prefetches the next tile's.
template <int R, int V>
static void add_coded_values(const AttendedTile& tile, const CodeWeights& weights, int64_t column) {
  Integers high[R][V], low[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) high[r][v] = low[r][v] = splat_integer(0);
  }
  const std::byte* values = tile.values + column * kCodeColumns;
  const std::byte* ahead = (tile.next_values != nullptr ? tile.next_values : tile.values) + column * kCodeColumns;
  for (int group = 0; group < kTokenGroups; ++group) {
    __m512i value[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      value[v] = codes_at(values + v * kLineBytes);
      __builtin_prefetch(ahead + v * kLineBytes, 0, 2);
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m512i high_part = four_at(weights.high + r * kPanel + group * 4);
      const __m512i low_part = four_at(weights.low + r * kPanel + group * 4);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        high[r][v] = dot(high[r][v], high_part, value[v]);
        low[r][v] = dot(low[r][v], low_part, value[v]);
      }
    }
    values += tile.columns * kCodeColumns;
    ahead += tile.columns * kCodeColumns;
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    float* const result = tile.result + r * tile.columns + column;
    const Lanes scale = splat(weights.scale[r]);
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      store(result + v * kLanes, fma(joined(high[r][v], low[r][v]), scale, load(result + v * kLanes)));
    }
  }
}

template <int R>
static void attend_code_rows(const AttendedTile& tile) {
  alignas(64) float products[R * kPanel];
  CodeWeights weights;
  code_products<R>(tile, products);
  const bool is_shaped = tile.soft_cap != 0.0f || tile.slope != nullptr;
  for (int r = 0; r < R; ++r) {
    if (is_shaped) {
      tile.is_whole ? code_weights_of_row<true, true>(tile, r, products, weights)
                    : code_weights_of_row<true, false>(tile, r, products, weights);
    } else {
      tile.is_whole ? code_weights_of_row<false, true>(tile, r, products, weights)
                    : code_weights_of_row<false, false>(tile, r, products, weights);
    }
  }
  int64_t column = 0;
  for (; column + 2 * kStrip <= tile.columns; column += 2 * kStrip) add_coded_values<R, 2>(tile, weights, column);
  if (column < tile.columns) add_coded_values<R, 1>(tile, weights, column);
}

static void attend_codes(const AttendedTile& tile) {
  switch (tile.rows) {
    case 1: return attend_code_rows<1>(tile);
    case 2: return attend_code_rows<2>(tile);
    case 3: return attend_code_rows<3>(tile);
    case 4: return attend_code_rows<4>(tile);
    case 5: return attend_code_rows<5>(tile);
    default: return attend_code_rows<6>(tile);
  }
}

static void split_query(const float* q, int64_t count, int64_t steps, std::byte* dst) {
  const int64_t padded = steps * kCodeColumns;
  Lanes most = zero(), poison = zero();
  const auto values = [&](int64_t i) {
    return count - i >= kLanes ? load(q + i) : load(q + i, static_cast<int>(count - i));
  };
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes x = values(i);
    most = larger(larger(x, zero() - x), most);
    poison = poison + (x - x);
  }
  const float largest = largest_of(most), not_finite = sum_of(poison);
  const bool is_number = not_finite == not_finite && largest >= 0x1p-100f;
  const Lanes inverse = splat(is_number ? kMostQuery / largest : 0.0f);
  Integers high_sum = splat_integer(0), low_sum = splat_integer(0);
  for (int64_t i = 0; i < padded; i += kLanes) {
    const Lanes x = i < count && is_number ? values(i) * inverse : zero();
    const auto all = reinterpret_cast<Integers>(_mm512_cvtps_epi32(x.v));
    const Integers high = (all + 128) >> 8, low = all - (high << 8);
    high_sum += high;
    low_sum += low;
    const __mmask16 kept = first_lanes(padded - i >= kLanes ? kLanes : static_cast<int>(padded - i));
    _mm512_mask_cvtepi32_storeu_epi8(dst + i, kept, reinterpret_cast<__m512i>(high));
    _mm512_mask_cvtepi32_storeu_epi8(dst + padded + i, kept, reinterpret_cast<__m512i>(low));
  }
  const QueryScale scale{.scale = is_number ? largest / kMostQuery : not_finite,
                         .high_offset = -128 * _mm512_reduce_add_epi32(reinterpret_cast<__m512i>(high_sum)),
                         .low_offset = -128 * _mm512_reduce_add_epi32(reinterpret_cast<__m512i>(low_sum))};
  __builtin_memcpy(dst + 2 * padded, &scale, sizeof scale);
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA

#endif
