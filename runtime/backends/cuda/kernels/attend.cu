// Attention over cached keys and values.
//
// A tile of 64 positions gives a softmax of its own; a query head of a row folds those of its tiles in ascending order.
// Tiles begin at multiples of 64 positions, so the order of every sum depends on the row's position and window alone:
// not on the chunk, the other rows or the other heads. Few rows take their tiles side by side and fold them afterwards
// (attend_tiles, attend_fold), many rows in turn (attend); the bits are the same.
#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {
namespace {

constexpr int kWarps = kAttendThreads / kWarpLanes;
constexpr int kColumns = kMostHeadDim / kAttendThreads;  // of the result, for each thread

struct AttendShared {
  float scores[kTileTokens];
  float weights[kTileTokens];
};

/// The row and head of a block.
struct Query {
  int row;
  int head;
  int position;
  int first_seen;  // the first position that the window reaches
};

LOCKSTEP_DEVICE bool is_seen(const AttendParameters& p, const Query& query, int position) {
  return position <= query.position && (position >= query.first_seen || position < p.pinned);
}

LOCKSTEP_DEVICE int64_t tile_at(const AttendParameters& p, const Query& query, int tile) {
  if (p.tiles.turning_tiles > 0 && tile >= p.tiles.fixed_tiles) {
    tile = p.tiles.fixed_tiles + (tile - p.tiles.fixed_tiles) % p.tiles.turning_tiles;
  }
  const int64_t head = static_cast<int64_t>(p.head_map[query.head]) * kTileTokens * p.head_dim;
  return p.slot[query.row] * p.tiles.slot_stride + tile * p.tiles.tile_stride + head;
}

/// The largest value of a warp, on every lane.
LOCKSTEP_DEVICE float warp_maximum(float value) {
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) value = larger(value, shuffle_xor(value, mask));
  return value;
}

template <typename Rows>
LOCKSTEP_DEVICE float number_of_head(const AttendParameters& p, const void* numbers, int head) {
  if (p.is_float_per_head != 0) return static_cast<const float*>(numbers)[head];
  return Rows::read(static_cast<const typename Rows::Element*>(numbers)[head]);
}

/// The scores of a tile: a warp multiplies a key at a time. −∞ where nothing is seen.
template <typename Rows>
LOCKSTEP_DEVICE void score_tile(const AttendParameters& p, const Query& query, int tile, AttendShared& shared) {
  using Element = typename Rows::Element;
  const int lane = thread_index() % kWarpLanes;
  const Element* keys = static_cast<const Element*>(p.keys) + tile_at(p, query, tile);
  const int64_t column = static_cast<int64_t>(query.head) * p.head_dim;
  for (int token = thread_index() / kWarpLanes; token < kTileTokens; token += kWarps) {
    const int position = tile * kTileTokens + token;
    float score = -infinity();
    if (is_seen(p, query, position)) {  // the same on all lanes
      const bool is_pinned = position < p.pinned && p.pinned_q != nullptr;
      const Element* q = is_pinned ? static_cast<const Element*>(p.pinned_q) + query.row * p.pinned_q_stride
                                   : static_cast<const Element*>(p.q) + query.row * p.q_stride;
      float sum = 0.0f;
      for (int i = lane; i < p.head_dim; i += kWarpLanes) {
        sum = madd(Rows::read(q[column + i]), Rows::read(keys[static_cast<int64_t>(token) * p.head_dim + i]), sum);
      }
      score = times(warp_sum(sum), p.scale);
      if (p.soft_cap != 0.0f) score = times(p.soft_cap, tanh_of(divide(score, p.soft_cap)));
      if (p.slopes != nullptr) {
        score = plus(
            score, times(number_of_head<Rows>(p, p.slopes, query.head), static_cast<float>(position - query.position)));
      }
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

/// exp(x − origin) is relative to this; 0 where nothing has a finite score.
LOCKSTEP_DEVICE float origin_of(float maximum) { return maximum == -infinity() ? 0.0f : maximum; }

LOCKSTEP_DEVICE bool is_needed(const AttendParameters& p, const Query& query, int tile) {
  return (tile + 1) * kTileTokens > query.first_seen || tile * kTileTokens < p.pinned;
}

/// The softmax over one tile.
template <typename Rows>
LOCKSTEP_DEVICE void take_tile(const AttendParameters& p, const Query& query, int tile, AttendShared& shared,
                               Softmax& of_tile) {
  using Element = typename Rows::Element;
  const int lane = thread_index() % kWarpLanes;
  score_tile<Rows>(p, query, tile, shared);
  of_tile.maximum = warp_maximum(larger(shared.scores[lane], shared.scores[lane + kWarpLanes]));
  const float origin = origin_of(of_tile.maximum);
  if (thread_index() < kTileTokens) {
    shared.weights[thread_index()] = exp_of(plus(shared.scores[thread_index()], -origin));
  }
  sync_block();
  of_tile.sum = warp_sum(plus(shared.weights[lane], shared.weights[lane + kWarpLanes]));
  const Element* values = static_cast<const Element*>(p.values) + tile_at(p, query, tile);
  const int first = tile * kTileTokens;
  const bool is_whole = is_seen(p, query, first) && is_seen(p, query, first + kTileTokens - 1) && p.pinned == 0;
  LOCKSTEP_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    const int i = column * kAttendThreads + thread_index();
    if (i >= p.head_dim) break;
    float value = 0.0f;
    if (is_whole) {  // the same sums, with the loads side by side
      constexpr int kLoads = 16;
      for (int token = 0; token < kTileTokens; token += kLoads) {
        Element loaded[kLoads];
        LOCKSTEP_UNROLL
        for (int load = 0; load < kLoads; ++load) {
          loaded[load] = values[static_cast<int64_t>(token + load) * p.head_dim + i];
        }
        LOCKSTEP_UNROLL
        for (int load = 0; load < kLoads; ++load) {
          value = madd(shared.weights[token + load], Rows::read(loaded[load]), value);
        }
      }
    } else {
      for (int token = 0; token < kTileTokens; ++token) {
        if (!is_seen(p, query, first + token)) continue;
        value = madd(shared.weights[token], Rows::read(values[static_cast<int64_t>(token) * p.head_dim + i]), value);
      }
    }
    of_tile.values[column] = value;
  }
  sync_block();
}

template <typename Rows>
LOCKSTEP_DEVICE void begin(const AttendParameters& p, const Query& query, Softmax& all) {
  all = {};
  all.maximum = p.sinks == nullptr ? -infinity() : number_of_head<Rows>(p, p.sinks, query.head);
  all.sum = p.sinks == nullptr ? 0.0f : 1.0f;
}

/// Adds the next tile.
LOCKSTEP_DEVICE void fold(const AttendParameters& p, const Softmax& tile, Softmax& all) {
  const float maximum = larger(all.maximum, tile.maximum);
  const float of_all = exp_of(plus(all.maximum, -origin_of(maximum)));
  const float of_tile = exp_of(plus(tile.maximum, -origin_of(maximum)));
  all.maximum = maximum;
  all.sum = madd(all.sum, of_all, times(tile.sum, of_tile));
  LOCKSTEP_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    if (column * kAttendThreads + thread_index() >= p.head_dim) break;
    all.values[column] = madd(tile.values[column], of_tile, times(all.values[column], of_all));
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void end(const AttendParameters& p, const Query& query, const Softmax& all) {
  using Element = typename Rows::Element;
  Element* y = static_cast<Element*>(p.y) + query.row * p.y_stride + static_cast<int64_t>(query.head) * p.head_dim;
  LOCKSTEP_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    const int i = column * kAttendThreads + thread_index();
    if (i < p.head_dim) y[i] = Rows::write(divide(all.values[column], all.sum));
  }
}

LOCKSTEP_DEVICE Query query_of(const AttendParameters& p, int row, int head) {
  const int position = p.position[row];
  return {row, head, position, p.window > 0 && position >= p.window ? position - p.window + 1 : 0};
}

/// The head and row of a block; false: there is nothing to see, the result is written.
template <typename Rows>
LOCKSTEP_DEVICE bool find_query(const AttendParameters& p, Query& query) {
  using Element = typename Rows::Element;
  const int row = block_index() / p.heads;
  const int head = block_index() % p.heads;
  if (row >= used(p.rows)) return false;
  if (p.slot[row] < 0) {  // the same on all threads
    Element* y = static_cast<Element*>(p.y) + row * p.y_stride + static_cast<int64_t>(head) * p.head_dim;
    for (int i = thread_index(); i < p.head_dim; i += kAttendThreads) y[i] = Rows::write(0.0f);
    return false;
  }
  query = query_of(p, row, head);
  return true;
}

template <typename Rows>
LOCKSTEP_DEVICE void attend(const AttendParameters& p) {
  Query query{};
  if (!find_query<Rows>(p, query)) return;
  AttendShared& shared = shared_memory<AttendShared>();
  Softmax all;
  begin<Rows>(p, query, all);
  for (int tile = 0; tile <= query.position / kTileTokens; ++tile) {
    if (!is_needed(p, query, tile)) continue;
    Softmax of_tile;
    take_tile<Rows>(p, query, tile, shared, of_tile);
    fold(p, of_tile, all);
  }
  end<Rows>(p, query, all);
}

LOCKSTEP_DEVICE int64_t place_of(const AttendTilesParameters& p, const Query& query, int tile) {
  return (static_cast<int64_t>(query.row) * p.attend.heads + query.head) * p.of_rows.tiles + tile;
}

template <typename Rows>
LOCKSTEP_DEVICE void attend_tiles(const AttendTilesParameters& p) {
  AttendShared& shared = shared_memory<AttendShared>();
  const AttendParameters& a = p.attend;
  const int rows = used(a.rows);
  int first = 0;  // units of the rows before
  int unit = block_index();
  for (int row = 0; row < rows; ++row) {
    const int units = a.slot[row] < 0 ? 0 : (a.position[row] / kTileTokens + 1) * a.heads;
    for (; unit < first + units; unit += block_count()) {
      const int tile = (unit - first) / a.heads;
      const Query query = query_of(a, row, (unit - first) % a.heads);  // heads of one tile are side by side
      if (!is_needed(a, query, tile)) continue;
      Softmax of_tile;
      take_tile<Rows>(a, query, tile, shared, of_tile);
      const int64_t place = place_of(p, query, tile);
      if (thread_index() == 0) {
        p.of_rows.maxima[place] = of_tile.maximum;
        p.of_rows.sums[place] = of_tile.sum;
      }
      LOCKSTEP_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        const int i = column * kAttendThreads + thread_index();
        if (i < a.head_dim) p.of_rows.values[place * a.head_dim + i] = of_tile.values[column];
      }
    }
    first += units;
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void attend_fold(const AttendTilesParameters& p) {
  const AttendParameters& a = p.attend;
  Query query{};
  if (!find_query<Rows>(a, query)) return;
  Softmax all;
  begin<Rows>(a, query, all);
  for (int tile = 0; tile <= query.position / kTileTokens; ++tile) {
    if (!is_needed(a, query, tile)) continue;
    const int64_t place = place_of(p, query, tile);
    Softmax of_tile;
    of_tile.maximum = p.of_rows.maxima[place];
    of_tile.sum = p.of_rows.sums[place];
    LOCKSTEP_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      const int i = column * kAttendThreads + thread_index();
      of_tile.values[column] = i < a.head_dim ? p.of_rows.values[place * a.head_dim + i] : 0.0f;
    }
    fold(a, of_tile, all);
  }
  end<Rows>(a, query, all);
}

}  // namespace

LOCKSTEP_KERNEL(attend_f32, AttendParameters, kAttendThreads) { attend<F32Rows>(p); }
LOCKSTEP_KERNEL(attend_bf16, AttendParameters, kAttendThreads) { attend<Bf16Rows>(p); }
LOCKSTEP_KERNEL(attend_f16, AttendParameters, kAttendThreads) { attend<F16Rows>(p); }
LOCKSTEP_KERNEL(attend_tiles_f32, AttendTilesParameters, kAttendThreads) { attend_tiles<F32Rows>(p); }
LOCKSTEP_KERNEL(attend_tiles_bf16, AttendTilesParameters, kAttendThreads) { attend_tiles<Bf16Rows>(p); }
LOCKSTEP_KERNEL(attend_tiles_f16, AttendTilesParameters, kAttendThreads) { attend_tiles<F16Rows>(p); }
LOCKSTEP_KERNEL(attend_fold_f32, AttendTilesParameters, kAttendThreads) { attend_fold<F32Rows>(p); }
LOCKSTEP_KERNEL(attend_fold_bf16, AttendTilesParameters, kAttendThreads) { attend_fold<Bf16Rows>(p); }
LOCKSTEP_KERNEL(attend_fold_f16, AttendTilesParameters, kAttendThreads) { attend_fold<F16Rows>(p); }

}  // namespace lockstep::cuda
