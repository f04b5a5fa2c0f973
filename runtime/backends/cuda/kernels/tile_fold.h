// The fold of a row's tiles: their softmaxes, taken side by side, added in ascending order.
//
// The factors of a tile depend on maxima alone, so a warp finds those of 32 tiles of a head at once. Only the additions
// are one after the other, while the values of the next tiles are under way.
#pragma once

#include "runtime/backends/cuda/kernels/attention.h"

namespace lockstep::cuda {

/// A tile's part in the fold.
struct alignas(16) TilePart {
  FoldFactors factors;
  float sum;
};

/// Tiles of up to four heads.
struct FoldShared {
  TilePart parts[kHeadsAtOnce][kFoldTiles];
  float maxima[kHeadsAtOnce][kFoldTiles + 1];  // last: before them
};

LOCKSTEP_DEVICE int64_t place_of(const AttendTilesParameters& p, int row, int head) {
  return (static_cast<int64_t>(row) * p.attend.heads + head) * p.of_rows.tiles;
}

/// Threads beside each other have columns of the result; where a head has fewer of them than the block threads, they
/// share its heads.
struct Share {
  int first_head;  // of kOwn
  int column;
  int columns;  // between those of a thread
  bool is_idle;
};
template <int kOwn>
LOCKSTEP_DEVICE Share share_of(int columns) {
  const int width = columns < kAttendThreads ? columns : kAttendThreads;
  const int part = thread_index() / width;
  return {part * kOwn, thread_index() % width, width, part >= kHeadsAtOnce / kOwn};
}

/// Calls `work` with the number of heads of a thread: all four where each thread has columns of its own.
template <typename Work>
LOCKSTEP_DEVICE void with_share(int columns, Work work) {
  if (columns <= kAttendThreads / 4) {
    work.template operator()<1>();
  } else if (columns <= kAttendThreads / 2) {
    work.template operator()<2>();
  } else {
    work.template operator()<4>();
  }
}

/// The softmax of a tile, without its values.
struct TileNumbers {
  float maximum;
  float sum;
};

/// Those of the lane's tile, from `first` on, of `count`.
LOCKSTEP_DEVICE TileNumbers load_numbers(const AttendTilesParameters& p, int64_t place, int first, int count) {
  const int tile = first + thread_index() % kWarpLanes;
  if (tile >= count) return {-infinity(), 0.0f};
  return {p.of_rows.maxima[place + tile], p.of_rows.sums[place + tile]};
}

/// The parts of up to kFoldTiles tiles of a head, by its warp.
LOCKSTEP_DEVICE void find_parts(const TileNumbers& numbers, int head, FoldShared& shared) {
  const int lane = thread_index() % kWarpLanes;
  float before = shared.maxima[head][kFoldTiles];
  shared.maxima[head][lane] = numbers.maximum;
  sync_warp();
  LOCKSTEP_UNROLL
  for (int i = 0; i < kFoldTiles; ++i) {
    const float other = shared.maxima[head][i];
    before = i < lane ? larger(before, other) : before;
  }
  shared.parts[head][lane] = {fold_factors(before, numbers.maximum), numbers.sum};
  sync_warp();
  if (lane + 1 == kFoldTiles) shared.maxima[head][kFoldTiles] = larger(before, numbers.maximum);
}

/// The values of a thread's heads at kLoads tiles.
template <int kOwn, int kLoads>
struct TileValues {
  float value[kLoads][kOwn];
};

/// Columns of a result.
struct ColumnRange {
  int begin;
  int end;
};

/// Folds the tiles of `heads` query heads of a row in ascending order and writes the columns of their results. The
/// values of the tiles that follow are always under way.
template <typename Rows, int kOwn>
LOCKSTEP_DEVICE void fold_heads(const AttendTilesParameters& p, int row, const int32_t* heads, int head_count,
                                const ColumnRange& columns, int tiles, FoldShared& shared) {
  using Element = typename Rows::Element;
  constexpr int kLoads = kFoldTiles / kOwn;
  const AttendParameters& a = p.attend;
  const Share share = share_of<kOwn>(a.value_columns);
  const int warp = thread_index() / kWarpLanes;
  const bool has_head = warp < head_count;  // whose parts the warp finds
  const int64_t place = has_head ? place_of(p, row, heads[warp]) : 0;
  for (int first_column = columns.begin; first_column < columns.end; first_column += share.columns) {
    const int column = first_column + share.column;
    const bool is_idle = share.is_idle || column >= columns.end;
    const auto load_values = [&](int first, TileValues<kOwn, kLoads>& to) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < kOwn; ++i) {
        const bool is_own = !is_idle && share.first_head + i < head_count;
        const int64_t at = is_own ? place_of(p, row, heads[share.first_head + i]) + first : 0;
        LOCKSTEP_UNROLL
        for (int load = 0; load < kLoads; ++load) {
          const bool is_there = is_own && first + load < tiles;
          to.value[load][i] = is_there ? p.of_rows.values[(at + load) * a.value_columns + column] : 0.0f;
        }
      }
    };
    float sums[kOwn];
    float values[kOwn];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      sums[i] = first_sum(a);
      values[i] = 0.0f;
    }
    TileNumbers numbers{-infinity(), 0.0f};
    if (has_head) {
      if (thread_index() % kWarpLanes == 0) shared.maxima[warp][kFoldTiles] = first_maximum<Rows>(a, heads[warp]);
      numbers = load_numbers(p, place, 0, tiles);
    }
    TileValues<kOwn, kLoads> ahead;
    load_values(0, ahead);
    sync_warp();
    for (int first = 0; first < tiles; first += kFoldTiles) {
      if (has_head) {
        find_parts(numbers, warp, shared);
        numbers = load_numbers(p, place, first + kFoldTiles, tiles);
      }
      sync_block();
      for (int tile = 0; tile < kFoldTiles && first + tile < tiles; tile += kLoads) {
        const TileValues<kOwn, kLoads> loaded = ahead;
        load_values(first + tile + kLoads, ahead);
        LOCKSTEP_UNROLL
        for (int load = 0; load < kLoads; ++load) {
          if (first + tile + load >= tiles) break;
          LOCKSTEP_UNROLL
          for (int i = 0; i < kOwn; ++i) {
            if (is_idle || share.first_head + i >= head_count) continue;
            const TilePart part = shared.parts[share.first_head + i][tile + load];
            sums[i] = folded_sum(sums[i], part.sum, part.factors);
            values[i] = folded_value(values[i], loaded.value[load][i], part.factors);
          }
        }
      }
      sync_block();
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int head = share.first_head + i;
      if (is_idle || head >= head_count) continue;
      Element* y = static_cast<Element*>(a.y) + row * a.y_stride + static_cast<int64_t>(heads[head]) * a.value_columns;
      y[column] = Rows::write(divide(values[i], sums[i]));
    }
  }
}

}  // namespace lockstep::cuda
