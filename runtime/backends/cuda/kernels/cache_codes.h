// Rows of keys and values in 8 bits (runtime/core/cache_rows.h): tiles as kernels decode them.
#pragma once

#include "runtime/backends/cuda/kernels/attention.h"
#include "runtime/backends/cuda/kernels/codes.h"

namespace lockstep::cuda {

/// The rows of a head of a tile.
struct CodedTile {
  const unsigned char* codes;
  const float* scales;
  int32_t kind;  // CacheCodes
  int head_dim;

  LOCKSTEP_DEVICE float value(int token, uint32_t code) const {
    const float whole = float_of_whole(static_cast<int8_t>(code));
    return times(scales[token], kind == kInt8Codes ? whole : e4m3_value(code));
  }
  LOCKSTEP_DEVICE float at(int token, int column) const {
    return value(token, codes[static_cast<int64_t>(token) * head_dim + column]);
  }
};

/// The tile whose codes begin at `codes`.
LOCKSTEP_DEVICE CodedTile coded_tile(const CacheTiles& tiles, const void* codes, int head_dim) {
  const auto* bytes = static_cast<const unsigned char*>(codes);
  return {bytes, reinterpret_cast<const float*>(bytes + kTileTokens * head_dim), tiles.codes, head_dim};
}

/// Decodes columns [first, first + columns) of a tile: `put(token, column, value)` gets those of tokens that are there,
/// and zeros of the others and of columns up to `padded`. A warp takes rows; a lane loads four codes at once.
template <typename IsThere, typename Put>
LOCKSTEP_DEVICE void decode_tile(const CodedTile& tile, int first, int columns, int padded, IsThere is_there, Put put) {
  const bool is_aligned = tile.head_dim % 4 == 0 && first % 4 == 0;
  LOCKSTEP_NO_UNROLL
  for (int token = thread_index() / kWarpLanes; token < kTileTokens; token += warp_count()) {
    const unsigned char* codes = tile.codes + static_cast<int64_t>(token) * tile.head_dim + first;
    const int end = is_there(token) ? columns : 0;
    LOCKSTEP_NO_UNROLL
    for (int column = thread_index() % kWarpLanes * 4; column < padded; column += kWarpLanes * 4) {
      uint32_t word = 0;
      if (is_aligned && column + 4 <= end) {
        word = *reinterpret_cast<const uint32_t*>(codes + column);
      } else {
        LOCKSTEP_UNROLL
        for (int i = 0; i < 4; ++i) word |= column + i < end ? static_cast<uint32_t>(codes[column + i]) << (8 * i) : 0u;
      }
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (column + i >= padded) break;
        put(token, column + i, column + i < end ? tile.value(token, word >> (8 * i) & 0xffu) : 0.0f);
      }
    }
  }
}

}  // namespace lockstep::cuda
