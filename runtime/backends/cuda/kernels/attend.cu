// Attention over cached keys and values, in f32; in 16 bits: attention_16.h.
//
// A tile of 64 positions gives a softmax of its own; a query head of a row folds those of its tiles in ascending order.
// Tiles begin at multiples of 64 positions, so the order of every sum depends on the row's position and window alone:
// not on the chunk, the other rows or the other heads. Here a block takes the tiles of a query head in turn; few rows
// take theirs side by side (attend_tiles.cu), with the same bits.
#include "runtime/backends/cuda/kernels/cache_codes.h"

namespace lockstep::cuda {
namespace {

constexpr int kWarps = kAttendThreads / kWarpLanes;
constexpr int kColumns = kMostValueColumns / kAttendThreads;  // of the result, for each thread

struct AttendShared {
  float scores[kTileTokens];
  float weights[kTileTokens];
};

/// The row and head of a block.
struct Query {
  int row;
  int head;
  SeenBy seen;
};

LOCKSTEP_DEVICE int64_t tile_of(const AttendParameters& p, const Query& query, int tile) {
  return tile_at(p, p.slot[query.row], tile, p.head_map[query.head]);
}

/// A tile of keys or values of a head.
template <bool kIsCoded>
struct CachedTile;
template <>
struct CachedTile<false> {
  const float* elements;
  int head_dim;

  LOCKSTEP_DEVICE CachedTile(const AttendParameters& p, const void* cache, int64_t place)
      : elements(static_cast<const float*>(cache) + place), head_dim(p.head_dim) {}
  LOCKSTEP_DEVICE float at(int token, int column) const {
    return elements[static_cast<int64_t>(token) * head_dim + column];
  }
};
template <>
struct CachedTile<true> : CodedTile {
  LOCKSTEP_DEVICE CachedTile(const AttendParameters& p, const void* cache, int64_t place)
      : CodedTile(coded_tile(p.tiles, static_cast<const unsigned char*>(cache) + place, p.head_dim)) {}
};

/// The scores of a tile: a warp multiplies a key at a time. −∞ where nothing is seen.
template <bool kIsCoded>
LOCKSTEP_DEVICE void score_tile(const AttendParameters& p, const Query& query, int tile, AttendShared& shared) {
  const int lane = thread_index() % kWarpLanes;
  const CachedTile<kIsCoded> keys(p, p.keys, tile_of(p, query, tile));
  const int64_t column = static_cast<int64_t>(query.head) * p.head_dim;
  for (int token = thread_index() / kWarpLanes; token < kTileTokens; token += kWarps) {
    const int position = tile * kTileTokens + token;
    float score = -infinity();
    if (is_seen(p, query.seen, position)) {  // the same on all lanes
      const bool is_pinned = position < p.pinned && p.pinned_q != nullptr;
      const float* q = is_pinned ? static_cast<const float*>(p.pinned_q) + query.row * p.pinned_q_stride
                                 : static_cast<const float*>(p.q) + query.row * p.q_stride;
      float sum = 0.0f;
      for (int i = lane; i < p.head_dim; i += kWarpLanes) {
        sum = madd(q[column + i], keys.at(token, i), sum);
      }
      score = score_of<F32Rows>(p, query.seen, query.head, position, warp_sum(sum));
    }
    if (lane == 0) shared.scores[token] = score;
  }
  sync_block();
}

/// The softmax over what a query head sees of one or several tiles: weights relative to the largest score.
struct Softmax {
  float maximum;
  float sum;
  float values[kColumns];
};

LOCKSTEP_DEVICE bool is_needed(const AttendParameters& p, const Query& query, int tile) {
  return (tile + 1) * kTileTokens > query.seen.first || tile * kTileTokens < p.pinned;
}

/// The softmax over one tile.
template <bool kIsCoded>
LOCKSTEP_DEVICE void take_tile(const AttendParameters& p, const Query& query, int tile, AttendShared& shared,
                               Softmax& of_tile) {
  const int lane = thread_index() % kWarpLanes;
  score_tile<kIsCoded>(p, query, tile, shared);
  of_tile.maximum = warp_maximum(larger(shared.scores[lane], shared.scores[lane + kWarpLanes]));
  const float origin = origin_of(of_tile.maximum);
  if (thread_index() < kTileTokens) {
    shared.weights[thread_index()] = exp_of(plus(shared.scores[thread_index()], -origin));
  }
  sync_block();
  of_tile.sum = warp_sum(plus(shared.weights[lane], shared.weights[lane + kWarpLanes]));
  const CachedTile<kIsCoded> values(p, p.values, tile_of(p, query, tile));
  const int first = tile * kTileTokens;
  LOCKSTEP_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    const int i = column * kAttendThreads + thread_index();
    if (i >= p.value_columns) break;
    float value = 0.0f;
    if (is_whole(p, query.seen, tile)) {  // the same sums, with the loads side by side
      constexpr int kLoads = 16;
      for (int token = 0; token < kTileTokens; token += kLoads) {
        float loaded[kLoads];
        LOCKSTEP_UNROLL
        for (int load = 0; load < kLoads; ++load) {
          loaded[load] = values.at(token + load, i);
        }
        LOCKSTEP_UNROLL
        for (int load = 0; load < kLoads; ++load) {
          value = madd(shared.weights[token + load], loaded[load], value);
        }
      }
    } else {
      for (int token = 0; token < kTileTokens; ++token) {
        if (!is_seen(p, query.seen, first + token)) continue;
        value = madd(shared.weights[token], values.at(token, i), value);
      }
    }
    of_tile.values[column] = value;
  }
  sync_block();
}

LOCKSTEP_DEVICE void begin(const AttendParameters& p, const Query& query, Softmax& all) {
  all = {};
  all.maximum = first_maximum<F32Rows>(p, query.head);
  all.sum = first_sum(p);
}

/// Adds the next tile.
LOCKSTEP_DEVICE void fold(const AttendParameters& p, const Softmax& tile, Softmax& all) {
  const FoldFactors factors = fold_factors(all.maximum, tile.maximum);
  all.maximum = larger(all.maximum, tile.maximum);
  all.sum = folded_sum(all.sum, tile.sum, factors);
  LOCKSTEP_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    if (column * kAttendThreads + thread_index() >= p.value_columns) break;
    all.values[column] = folded_value(all.values[column], tile.values[column], factors);
  }
}

LOCKSTEP_DEVICE void end(const AttendParameters& p, const Query& query, const Softmax& all) {
  float* y = static_cast<float*>(p.y) + query.row * p.y_stride + static_cast<int64_t>(query.head) * p.value_columns;
  LOCKSTEP_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    const int i = column * kAttendThreads + thread_index();
    if (i < p.value_columns) y[i] = divide(all.values[column], all.sum);
  }
}

/// The head and row of a block; false: there is nothing to see, the result is written.
LOCKSTEP_DEVICE bool find_query(const AttendParameters& p, Query& query) {
  const int row = block_index() / p.heads;
  const int head = block_index() % p.heads;
  if (row >= used(p.rows)) return false;
  if (p.slot[row] < 0) {  // the same on all threads
    float* y = static_cast<float*>(p.y) + row * p.y_stride + static_cast<int64_t>(head) * p.value_columns;
    for (int i = thread_index(); i < p.value_columns; i += kAttendThreads) y[i] = 0.0f;
    return false;
  }
  query = {row, head, seen_by(p, row)};
  return true;
}

template <bool kIsCoded>
LOCKSTEP_DEVICE void attend(const AttendParameters& p) {
  follow_previous();
  Query query{};
  if (!find_query(p, query)) return;
  AttendShared& shared = shared_memory<AttendShared>();
  Softmax all;
  begin(p, query, all);
  for (int tile = 0; tile <= query.seen.position / kTileTokens; ++tile) {
    if (!is_needed(p, query, tile)) continue;
    Softmax of_tile;
    take_tile<kIsCoded>(p, query, tile, shared, of_tile);
    fold(p, of_tile, all);
  }
  end(p, query, all);
}

}  // namespace

LOCKSTEP_KERNEL(attend_f32, AttendParameters, kAttendThreads) { attend<false>(p); }
LOCKSTEP_KERNEL(attend_codes_f32, AttendParameters, kAttendThreads) { attend<true>(p); }

}  // namespace lockstep::cuda
