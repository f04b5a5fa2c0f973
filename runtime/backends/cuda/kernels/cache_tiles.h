// Where a cache keeps a position.
#pragma once

#include "runtime/backends/cuda/kernels/device.h"
#include "runtime/backends/cuda/kernels/parameters.h"

namespace lockstep::cuda {

/// The tile that starts at position 64 · `number`, of a slot's first head, in elements.
LOCKSTEP_DEVICE int64_t tile_place(const CacheTiles& tiles, int slot, int number) {
  if (tiles.turning_tiles > 0 && number >= tiles.fixed_tiles) {
    number = tiles.fixed_tiles + (number - tiles.fixed_tiles) % tiles.turning_tiles;
  }
  return slot * tiles.slot_stride + number * tiles.tile_stride;
}

/// The first element of a head's row at `position`, of a cache of elements.
LOCKSTEP_DEVICE int64_t row_place(const CacheTiles& tiles, int slot, int position, int64_t head, int head_dim) {
  return tile_place(tiles, slot, position / kTileTokens) + (head * kTileTokens + position % kTileTokens) * head_dim;
}

/// Elements from a head of a tile to the next.
LOCKSTEP_DEVICE int64_t head_elements(const CacheTiles& tiles, int head_dim) {
  return static_cast<int64_t>(kTileTokens) * (head_dim + tiles.scale_elements);
}

}  // namespace lockstep::cuda
