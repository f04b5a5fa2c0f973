// Where keys and values lie in a GPU's memory. Caches with equally many tiles share a region:
//
//   slot ─► tile of 64 tokens ─► cache (layer 0 K, layer 0 V, layer 1 K, …) ─► head ─► [64][head_dim]
//
// In 8 bits (runtime/core/cache_rows.h) the codes of a head's 64 rows are followed by their 64 scales.
//
// The memory of a sequence fills from the front of its slot, tile by tile, so pages are committed as tokens arrive. A
// ring keeps its pinned tiles and uses the others in turn; tiles start at multiples of 64 positions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/core/cache_rows.h"
#include "runtime/core/dtype.h"
#include "runtime/device/row_limits.h"

namespace lockstep::cuda {

/// One cache inside its region. Offsets and strides are bytes.
struct CacheLayout {
  DType dtype = DType::kFloat32;
  int64_t heads = 0;
  int64_t head_dim = 0;  // without a scale
  device::HeldPositions held;
  int64_t region = 0;       // offset of its region in the memory of all caches
  int64_t offset = 0;       // of slot 0, tile 0, in that memory
  int64_t tile_stride = 0;  // a tile of all caches of the region
  int64_t slot_stride = 0;

  int64_t element_size() const { return static_cast<int64_t>(size_of(dtype)); }
  int64_t row_bytes() const { return row_elements(dtype, head_dim) * element_size(); }
  int64_t tile_bytes() const { return heads * kTileTokens * row_bytes(); }
  int64_t fixed_tiles() const { return ((held.is_ring ? held.pinned : held.capacity) + kTileTokens - 1) / kTileTokens; }
  /// Tiles of a ring that are used in turn: `capacity − pinned` consecutive positions touch at most this many.
  int64_t turning_tiles() const {
    return held.is_ring ? (held.capacity - held.pinned + 2 * (kTileTokens - 1)) / kTileTokens : 0;
  }
  int64_t tiles() const { return fixed_tiles() + turning_tiles(); }
  /// The place, in its slot, of the tile that starts at position 64 · `number`.
  int64_t place_of(int64_t number) const {
    return number < fixed_tiles() ? number : fixed_tiles() + (number - fixed_tiles()) % turning_tiles();
  }
  /// The row of the graph's state for `position`.
  int64_t row_of(int64_t position) const {
    const bool turns = held.is_ring && position >= held.pinned;
    return turns ? held.pinned + (position - held.pinned) % (held.capacity - held.pinned) : position;
  }
  /// Tiles of a slot, from the front, that hold its first `tokens` positions.
  int64_t used_tiles(int64_t tokens) const { return std::min((tokens + kTileTokens - 1) / kTileTokens, tiles()); }
  /// The offset of a tile of this cache.
  int64_t tile(int64_t slot, int64_t place) const { return offset + slot * slot_stride + place * tile_stride; }
  /// Copies a token's row of a head from `tile`, as the graph's state has it.
  void copy_row(const std::byte* tile, int64_t head, int64_t token, std::byte* to) const {
    const int64_t values = head_dim * element_size(), scale = row_bytes() - values;
    const std::byte* own = tile + head * kTileTokens * row_bytes();
    std::memcpy(to, own + token * values, static_cast<size_t>(values));
    std::memcpy(to + values, own + kTileTokens * values + token * scale, static_cast<size_t>(scale));
  }

  /// As kernels see it.
  CacheTiles for_kernels() const {
    return {.slot_stride = slot_stride / element_size(),
            .tile_stride = tile_stride / element_size(),
            .fixed_tiles = static_cast<int32_t>(fixed_tiles()),
            .turning_tiles = static_cast<int32_t>(turning_tiles()),
            .codes = !has_row_scales(dtype)  ? kNoCodes
                     : dtype == DType::kInt8 ? kInt8Codes
                                             : kE4M3Codes,
            .scale_elements = static_cast<int32_t>(row_elements(dtype, 0))};
  }
};

}  // namespace lockstep::cuda
