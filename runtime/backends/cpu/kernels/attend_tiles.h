// Attention with AMX: 16 rows over one tile of 64 keys and values, in pairs of bfloat16.
//
//   scores [16, 64] = q · keysᵀ     with AMX, through the first-level cache
//   weights [16, 64], bfloat16      as attend.h makes them, row by row
//   result [16, columns] += weights · values
//
// A weight of 0 adds nothing to a sum in any block, so all 64 tokens are always multiplied; values invisible to a row
// must then be finite. Included by isa_amx.cpp after tiles.h.
#pragma once

#include "runtime/backends/cpu/kernels/attend.h"
#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/tiles.h"

#if defined(__AMX_BF16__)

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

constexpr int64_t kWeightBytes = kPanel * 2;  // of a row of weights

/// V strips of a tile's values: [32 pairs, ·, 2].
struct ValuePanel {
  const std::byte* data;
  int64_t stride;  // bytes from one pair to the next
  int strips;
};

/// Adds weights · values to `result`, for as many rows as the unit is configured for.
static void add_weighted(const std::byte* weights, const ValuePanel& values, float* result, int64_t result_stride) {
  const auto add = [&]<int V>() __attribute__((always_inline)) {
    WideSums<MultiplyPairs, V>::resume(result, result_stride);
    WideSums<MultiplyPairs, V>::add(values.data, values.stride, weights, kWeightBytes, kPanel / 2);
    WideSums<MultiplyPairs, V>::close(result, result_stride);
  };
  switch (values.strips) {
    case 1: add.template operator()<1>(); break;
    case 2: add.template operator()<2>(); break;
    case 3: add.template operator()<3>(); break;
    default: add.template operator()<4>(); break;
  }
}

/// A copy of a panel with zeros outside the tokens [begin, end).
struct KeptValues {
  alignas(64) std::byte data[kPanel / 2 * kPanelStrips * 64];
  bool is_finite = true;  // the copied values

  void keep(const ValuePanel& values, int begin, int end) {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    __mmask32 found = 0;
    for (int pair = 0; pair < kPanel / 2; ++pair) {
      const auto keeps = [&](int token) { return token >= begin && token < end; };
      const uint32_t kept = (keeps(2 * pair) ? 0xffffu : 0u) | (keeps(2 * pair + 1) ? 0xffff0000u : 0u);
      for (int v = 0; v < values.strips; ++v) {
        __m512i bits = _mm512_setzero_si512();
        if (kept != 0) {  // memory never written may not be mapped
          bits = _mm512_and_si512(_mm512_loadu_si512(values.data + pair * values.stride + v * 64),
                                  _mm512_set1_epi32(static_cast<int>(kept)));
        }
        found |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(bits, exponent), exponent);
        _mm512_store_si512(data + (pair * kPanelStrips + v) * 64, bits);
      }
    }
    is_finite = found == 0;
  }
  ValuePanel panel(int strips) const { return {data, kPanelStrips * 64, strips}; }
};

/// Adds the weighted values of a tile that some rows see only in part. Values invisible to a row have weight 0, but 0 ·
/// ∞ is NaN. If there are infinities, each row therefore gets a copy of the values without the invisible ones.
static void add_seen_values(const AttendedTile& tile, int first_row, int rows, const std::byte* weights,
                            const ValuePanel& values, float* result) {
  int begin = kPanel, end = 0;
  for (int r = first_row; r < first_row + rows; ++r) {
    if (tile.begin[r] >= tile.end[r]) continue;
    begin = tile.begin[r] < begin ? tile.begin[r] : begin;
    end = tile.end[r] > end ? tile.end[r] : end;
  }
  if (begin >= end) return;
  KeptValues kept;
  kept.keep(values, begin, end);
  if (kept.is_finite) return add_weighted(weights, kept.panel(values.strips), result, tile.columns);
  configure_wide(1, 0);
  for (int r = 0; r < rows; ++r) {
    kept.keep(values, tile.begin[first_row + r], tile.end[first_row + r]);
    add_weighted(weights + r * kWeightBytes, kept.panel(values.strips), result + r * tile.columns, tile.columns);
  }
  configure_wide(rows, static_cast<int>(tile.steps % kTileSide));
}

/// Rows [first, first + rows), at most 16, for which the unit is configured.
template <bool kIsShaped>
static void attend_tile_rows(const AttendedTile& tile, int first, int rows) {
  alignas(64) float scores[kTileSide * kPanel];
  alignas(64) std::byte weights[kTileSide * kWeightBytes];
  WideSums<MultiplyPairs, 4>::open();
  WideSums<MultiplyPairs, 4>::add(tile.keys, kPanelStrips * 64, tile.q + first * tile.q_stride, tile.q_stride,
                                  tile.steps);
  WideSums<MultiplyPairs, 4>::close(scores, kPanel);
  for (int r = 0; r < rows; ++r) {
    Lanes products[kPanelStrips];
#pragma GCC unroll 4
    for (int v = 0; v < kPanelStrips; ++v) products[v] = load(scores + r * kPanel + v * kLanes);
    std::byte* const to = weights + r * kWeightBytes;
    if (tile.is_whole) {
      weights_of_row<kIsShaped, true, kPanelStrips>(tile, first + r, 0, products, to);
    } else {
      weights_of_row<kIsShaped, false, kPanelStrips>(tile, first + r, 0, products, to);
    }
  }
  for (int64_t column = 0; column < tile.columns; column += kPanel) {
    const int64_t left = tile.columns - column;
    const ValuePanel values{tile.values + column * kStepBytes, tile.columns * kStepBytes,
                            static_cast<int>(left < kPanel ? left / kStrip : kPanelStrips)};
    float* const result = tile.result + first * tile.columns + column;
    if (tile.is_whole) {
      add_weighted(weights, values, result, tile.columns);
    } else {
      add_seen_values(tile, first, rows, weights, values, result);
    }
  }
}

static void attend_on_tiles(const AttendedTile& tile) {
  const bool is_shaped = tile.soft_cap != 0.0f || tile.slope != nullptr;
  const int last_steps = static_cast<int>(tile.steps % kTileSide);
  int configured = 0;
  for (int first = 0; first < tile.rows; first += kTileSide) {
    const int rows = tile.rows - first < kTileSide ? tile.rows - first : kTileSide;
    if (rows != configured) configure_wide(configured = rows, last_steps);
    if (is_shaped) {
      attend_tile_rows<true>(tile, first, rows);
    } else {
      attend_tile_rows<false>(tile, first, rows);
    }
    if (first > 0 || tile.next_keys == nullptr) continue;
    for (int64_t at = 0; at < tile.steps * kPanelStrips * 64; at += 64) __builtin_prefetch(tile.next_keys + at, 0, 2);
    for (int64_t at = 0; at < kPanel * tile.columns * 2; at += 64) __builtin_prefetch(tile.next_values + at, 0, 2);
  }
  release();
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA

#endif
