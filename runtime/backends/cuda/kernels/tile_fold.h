// The fold of a row's tiles: their softmaxes, taken side by side, added in ascending order.
//
// The factors of a tile depend on maxima alone, so a warp finds those of 32 tiles of a head at once; the additions
// follow in order, with the values of several tiles under way.
#pragma once

#include "runtime/backends/cuda/kernels/attention.h"

namespace lockstep::cuda {

/// The sums of up to four heads at some of their tiles.
struct FoldShared {
  float maxima[kHeadsAtOnce][kFoldTiles + 1];  // last: before them
  float of_all[kHeadsAtOnce][kFoldTiles + 1];
  float of_tile[kHeadsAtOnce][kFoldTiles + 1];
};

LOCKSTEP_DEVICE int64_t place_of(const AttendTilesParameters& p, int row, int head) {
  return (static_cast<int64_t>(row) * p.attend.heads + head) * p.of_rows.tiles;
}

/// Threads beside each other have columns; where a head has fewer columns than the block threads, they share its heads.
struct Share {
  int first_head;  // of kOwn
  int column;
  int columns;  // between those of a thread
  bool is_idle;
};
template <int kOwn>
LOCKSTEP_DEVICE Share share_of(int head_dim) {
  const int width = head_dim < kAttendThreads ? head_dim : kAttendThreads;
  const int part = thread_index() / width;
  return {part * kOwn, thread_index() % width, width, part >= kHeadsAtOnce / kOwn};
}

/// The factors of up to kFoldTiles tiles of a head, from `first` on, by its warp; the sum goes on in `sum`.
LOCKSTEP_DEVICE void find_factors(const AttendTilesParameters& p, int64_t place, int first, int count, int head,
                                  FoldShared& shared, float& sum) {
  const int lane = thread_index() % kWarpLanes;
  const bool is_tile = first + lane < count;
  const float maximum = is_tile ? p.of_rows.maxima[place + first + lane] : -infinity();
  const float own_sum = is_tile ? p.of_rows.sums[place + first + lane] : 0.0f;
  float before = shared.maxima[head][kFoldTiles];
  shared.maxima[head][lane] = maximum;
  sync_warp();
  for (int i = 0; i < lane; ++i) before = larger(before, shared.maxima[head][i]);
  const FoldFactors factors = fold_factors(before, maximum);
  shared.of_all[head][lane] = factors.of_all;
  shared.of_tile[head][lane] = factors.of_tile;
  sync_warp();
  if (is_tile && (lane + 1 == kFoldTiles || first + lane + 1 == count)) {
    shared.maxima[head][kFoldTiles] = larger(before, maximum);
  }
  shared.maxima[head][lane] = own_sum;  // no longer needed
  sync_warp();
  for (int i = 0; i < kFoldTiles && first + i < count; ++i) {
    sum = folded_sum(sum, shared.maxima[head][i], {shared.of_all[head][i], shared.of_tile[head][i]});
  }
}

/// Folds the tiles of `heads` query heads of a row in ascending order and writes their results.
template <typename Rows, int kOwn>
LOCKSTEP_DEVICE void fold_heads(const AttendTilesParameters& p, int row, const int32_t* heads, int head_count,
                                int tiles, FoldShared& shared) {
  using Element = typename Rows::Element;
  constexpr int kMostColumns = kMostHeadDim / kAttendThreads;
  constexpr int kLoads = 16 / kOwn;  // tiles whose values are under way
  const AttendParameters& a = p.attend;
  const Share share = share_of<kOwn>(a.head_dim);
  const int warp = thread_index() / kWarpLanes;
  float sum = first_sum(a);  // of the warp's head
  float values[kMostColumns][kOwn] = {};
  if (warp < head_count) shared.maxima[warp][kFoldTiles] = first_maximum<Rows>(a, heads[warp]);
  sync_warp();
  for (int first = 0; first < tiles; first += kFoldTiles) {
    if (warp < head_count) find_factors(p, place_of(p, row, heads[warp]), first, tiles, warp, shared, sum);
    sync_block();
    LOCKSTEP_UNROLL
    for (int column = 0; column < kMostColumns; ++column) {
      const int at = share.column + column * share.columns;
      if (share.is_idle || at >= a.head_dim) break;
      for (int tile = 0; tile < kFoldTiles && first + tile < tiles; tile += kLoads) {
        float loaded[kLoads][kOwn];
        LOCKSTEP_UNROLL
        for (int load = 0; load < kLoads; ++load) {
          LOCKSTEP_UNROLL
          for (int i = 0; i < kOwn; ++i) {
            loaded[load][i] = 0.0f;
            if (first + tile + load >= tiles || share.first_head + i >= head_count) continue;
            const int64_t place = place_of(p, row, heads[share.first_head + i]) + first + tile + load;
            loaded[load][i] = p.of_rows.values[place * a.head_dim + at];
          }
        }
        LOCKSTEP_UNROLL
        for (int load = 0; load < kLoads; ++load) {
          LOCKSTEP_UNROLL
          for (int i = 0; i < kOwn; ++i) {
            const int head = share.first_head + i;
            if (first + tile + load >= tiles || head >= head_count) continue;
            const FoldFactors factors{shared.of_all[head][tile + load], shared.of_tile[head][tile + load]};
            values[column][i] = folded_value(values[column][i], loaded[load][i], factors);
          }
        }
      }
    }
    sync_block();
  }
  if (warp < head_count && thread_index() % kWarpLanes == 0) shared.maxima[warp][0] = sum;
  sync_block();
  LOCKSTEP_UNROLL
  for (int column = 0; column < kMostColumns; ++column) {
    const int at = share.column + column * share.columns;
    if (share.is_idle || at >= a.head_dim) break;
    LOCKSTEP_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int head = share.first_head + i;
      if (head >= head_count) continue;
      Element* y = static_cast<Element*>(a.y) + row * a.y_stride + static_cast<int64_t>(heads[head]) * a.head_dim;
      y[at] = Rows::write(divide(values[column][i], shared.maxima[head][0]));
    }
  }
  sync_block();
}

/// Calls `work` with the number of heads of a thread: all four where each thread has columns of its own.
template <typename Work>
LOCKSTEP_DEVICE void with_share(int head_dim, Work work) {
  if (head_dim <= kAttendThreads / 4) {
    work.template operator()<1>();
  } else if (head_dim <= kAttendThreads / 2) {
    work.template operator()<2>();
  } else {
    work.template operator()<4>();
  }
}

}  // namespace lockstep::cuda
