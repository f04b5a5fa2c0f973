// Units of attention of few rows: a tile that a row needs, for the query heads of one head of the cache. Blocks walk
// all rows' units; the block that brings the last one of a row and cache head folds them.
#pragma once

#include "runtime/backends/cuda/kernels/tile_fold.h"

namespace lockstep::cuda {

/// The tiles that a row needs: pinned ones, then those of its window.
struct Needed {
  int pinned;
  int first;
  int count;

  LOCKSTEP_DEVICE int tile(int index) const { return index < pinned ? index : first + index - pinned; }
};

LOCKSTEP_DEVICE Needed needed_by(const AttendParameters& p, const SeenBy& row) {
  const int first = row.first / kTileTokens;
  const int pinned_tiles = (p.pinned + kTileTokens - 1) / kTileTokens;
  const int pinned = pinned_tiles < first ? pinned_tiles : first;
  return {pinned, first, pinned + row.position / kTileTokens - first + 1};
}

/// A block's next tile.
struct Unit {
  int row;
  int first;   // units of the rows before
  int number;  // of all rows' units
};

/// Moves on to the row of the unit; false: there is none.
LOCKSTEP_DEVICE bool find_row(const AttendTilesParameters& p, int rows, Unit& unit) {
  for (; unit.row < rows; ++unit.row) {
    const bool is_padding = p.attend.slot[unit.row] < 0;
    const int units = is_padding ? 0 : needed_by(p.attend, seen_by(p.attend, unit.row)).count * p.groups;
    if (unit.number < unit.first + units) return true;
    unit.first += units;
  }
  return false;
}

/// Rows of a tile that a unit reads, without their scales.
struct TileBytes {
  const unsigned char* from;
  int bytes;
};

template <typename Element>
LOCKSTEP_DEVICE TileBytes bytes_of(const AttendTilesParameters& p, const Unit& unit, const void* cache) {
  const SeenBy seen = seen_by(p.attend, unit.row);
  const int tile = needed_by(p.attend, seen).tile((unit.number - unit.first) / p.groups);
  const int first = p.first_heads[(unit.number - unit.first) % p.groups];
  const int cache_head = p.attend.head_map[p.heads[first]];
  const Element* from =
      static_cast<const Element*>(cache) + tile_at(p.attend, p.attend.slot[unit.row], tile, cache_head);
  const int after = seen.position - tile * kTileTokens + 1;
  const int bytes = (after < kTileTokens ? after : kTileTokens) * p.attend.head_dim * static_cast<int>(sizeof(Element));
  return {reinterpret_cast<const unsigned char*>(from), bytes};
}

template <typename Element>
LOCKSTEP_DEVICE void bring_tile(const AttendTilesParameters& p, const Unit& unit, const void* cache) {
  const TileBytes tile = bytes_of<Element>(p, unit, cache);
  for (int at = thread_index() * kBroughtBytes; at < tile.bytes; at += kAttendThreads * kBroughtBytes) {
    bring_closer(tile.from + at);
  }
}

/// After a unit: whether all tiles of its row and group are done.
LOCKSTEP_DEVICE bool comes_last(const AttendTilesParameters& p, int row, int group, int tiles, int32_t& is_last) {
  sync_block();
  if (thread_index() == 0) {
    uint32_t* arrivals = p.arrivals + static_cast<int64_t>(row) * p.groups + group;
    is_last = count_arrival(arrivals) == static_cast<uint32_t>(tiles) ? 1 : 0;
    if (is_last != 0) *arrivals = 0;
  }
  sync_block();
  return is_last != 0;
}

/// Folds the tiles of a unit's row and group if the unit is the last of them, and no launch of its own does.
template <typename Rows>
LOCKSTEP_DEVICE void fold_if_last(const AttendTilesParameters& p, const Unit& unit, int tiles, int32_t& is_last,
                                  FoldShared& fold) {
  const int group = (unit.number - unit.first) % p.groups;
  if (p.arrivals == nullptr || !comes_last(p, unit.row, group, tiles, is_last)) return;
  const int end = p.first_heads[group + 1];
  for (int head = p.first_heads[group]; head < end; head += kHeadsAtOnce) {
    const int heads = end - head < kHeadsAtOnce ? end - head : kHeadsAtOnce;
    const ColumnRange columns{0, p.attend.value_columns};
    with_share(columns.end,
               [&]<int kOwn>() { fold_heads<Rows, kOwn>(p, unit.row, p.heads + head, heads, columns, tiles, fold); });
  }
}

/// Rows without a slot give zeros.
template <typename Rows>
LOCKSTEP_DEVICE void clear_padding(const AttendParameters& p, int rows) {
  using Element = typename Rows::Element;
  for (int row = block_index(); row < rows; row += block_count()) {
    if (p.slot[row] >= 0) continue;
    Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
    for (int i = thread_index(); i < p.heads * p.value_columns; i += kAttendThreads) y[i] = Rows::write(0.0f);
  }
}

}  // namespace lockstep::cuda
