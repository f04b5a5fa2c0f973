// Attention of few rows in f32: their tiles side by side, with the bits of attend.cu.
//
//   unit: row, cache head, tile ─► K, V into shared memory ─► scores of 4 query heads ─► softmax ─► maximum, sum,
//   values
//                                  (the next unit's K as soon as the scores are there)                     │
//   the block that brings the last tile of a row and cache head folds all of them in order ◄──────────────┘
//
// Values that are columns of the keys are read from the tile of keys, which stays until they are.
//
// The query heads of a cache head share one read of its keys and values. A score is what a warp gets that adds
// head_dim / 32 products a lane and then meets in a butterfly; here a butterfly adds 32 scores at once, so that each
// lane ends with one of them.
#include <type_traits>

#include "runtime/backends/cuda/kernels/cache_codes.h"
#include "runtime/backends/cuda/kernels/tile_units.h"

namespace lockstep::cuda {
namespace {

constexpr int kWarps = kAttendThreads / kWarpLanes;
constexpr int kKeysAtOnce = kWarpLanes / kHeadsAtOnce;  // of a warp
static_assert(kWarps == kHeadsAtOnce);                  // a warp makes the softmax of a head

/// Ahead of queries [2, kHeadsAtOnce, head_dim] as f32 and of a tile's keys and values.
struct TilesShared {
  float scores[kHeadsAtOnce][kTileTokens];
  alignas(16) float weights[kTileTokens][kHeadsAtOnce];
  FoldShared fold;
  int32_t is_last;
  int32_t padding[3];
};

/// The block's memory.
struct Memory {
  TilesShared* shared;
  float* queries;  // [2, kHeadsAtOnce, head_dim]: also those for pinned positions
  float* keys;
  float* values;
};

LOCKSTEP_DEVICE Memory memory_of(const AttendTilesParameters& p) {
  auto& shared = shared_memory_of<TilesShared>(p.shared_bytes);
  auto* queries = reinterpret_cast<float*>(&shared + 1);
  auto* keys = reinterpret_cast<float*>(queries + 2 * kHeadsAtOnce * p.attend.head_dim);
  float* values = p.attend.values == p.attend.keys ? keys : keys + kTileTokens * p.attend.head_dim;
  return {&shared, queries, keys, values};
}

/// What the elements of a cache are.
template <bool kIsCoded>
using CacheElement = std::conditional_t<kIsCoded, unsigned char, float>;

/// Starts the copy of what a unit reads of its tile, or decodes it.
template <bool kIsCoded>
LOCKSTEP_DEVICE void copy_tile(const AttendTilesParameters& p, const Unit& unit, const void* cache, float* to) {
  const TileBytes tile = bytes_of<CacheElement<kIsCoded>>(p, unit, cache);
  if constexpr (kIsCoded) {
    const int head_dim = p.attend.head_dim;
    decode_tile(
        coded_tile(p.attend.tiles, tile.from, head_dim), 0, head_dim, head_dim,
        [&](int token) { return token * head_dim < tile.bytes; },
        [&](int token, int column, float value) { to[token * head_dim + column] = value; });
  } else {
    for (int at = thread_index() * 16; at < tile.bytes; at += kAttendThreads * 16) {
      copy_async_16(reinterpret_cast<unsigned char*>(to) + at, tile.from + at);
    }
  }
}

/// A unit's copies are two groups: keys, which may replace those of the unit before once these are read, and values.
template <bool kIsCoded>
LOCKSTEP_DEVICE void copy_keys(const AttendTilesParameters& p, const Unit& unit, bool has_unit, const Memory& memory) {
  if (has_unit && memory.keys != memory.values) copy_tile<kIsCoded>(p, unit, p.attend.keys, memory.keys);
  commit_copies();
}
/// Keys that are also values come with them, and the group of the values is empty.
template <bool kIsCoded>
LOCKSTEP_DEVICE void copy_values(const AttendTilesParameters& p, const Unit& unit, bool has_unit,
                                 const Memory& memory) {
  if (has_unit) copy_tile<kIsCoded>(p, unit, p.attend.values, memory.values);
  commit_copies();
  if (memory.keys == memory.values) commit_copies();
}

/// Up to four query heads of a unit.
struct Chunk {
  int row;
  int tile;
  int place;  // of the tile among the row's
  int first;  // in AttendTilesParameters::heads
  int heads;
  SeenBy seen;
};

LOCKSTEP_DEVICE void load_queries(const AttendTilesParameters& p, const Chunk& chunk, float* queries) {
  const AttendParameters& a = p.attend;
  for (int i = thread_index(); i < kHeadsAtOnce * a.head_dim; i += kAttendThreads) {
    const int own = i / a.head_dim;
    const int64_t column =
        own < chunk.heads ? static_cast<int64_t>(p.heads[chunk.first + own]) * a.head_dim + i % a.head_dim : 0;
    const auto read = [&](const void* q, int64_t stride) {
      return own < chunk.heads ? static_cast<const float*>(q)[chunk.row * stride + column] : 0.0f;
    };
    queries[i] = read(a.q, a.q_stride);
    if (a.pinned_q != nullptr) queries[kHeadsAtOnce * a.head_dim + i] = read(a.pinned_q, a.pinned_q_stride);
  }
}

/// A step of the butterfly over `kMask` pairs of sums: half of the lanes go on with the first of each pair, the others
/// with the second.
template <int kMask>
LOCKSTEP_DEVICE void add_lanes(float (&sums)[kWarpLanes]) {
  const bool is_upper = (thread_index() % kWarpLanes & kMask) != 0;
  LOCKSTEP_UNROLL
  for (int i = 0; i < kMask; ++i) {
    const float shown = is_upper ? sums[i] : sums[i + kMask];
    sums[i] = plus(is_upper ? sums[i + kMask] : sums[i], shuffle_xor(shown, kMask));
  }
}

/// The products of a warp's keys, from `first` on, with four queries: those of key k and head h end on lane 4 k + h.
/// `queries_at(key)` are the queries for a key.
template <typename QueriesAt>
LOCKSTEP_DEVICE float multiply_keys(const float* keys, int first, int head_dim, QueriesAt queries_at) {
  const int lane = thread_index() % kWarpLanes;
  float sums[kWarpLanes] = {};
  for (int i = lane; i < head_dim; i += kWarpLanes) {
    LOCKSTEP_UNROLL
    for (int key = 0; key < kKeysAtOnce; ++key) {
      const float value = keys[(first + key) * head_dim + i];
      const float* queries = queries_at(first + key);
      LOCKSTEP_UNROLL
      for (int head = 0; head < kHeadsAtOnce; ++head) {
        float& sum = sums[key * kHeadsAtOnce + head];
        sum = madd(queries[head * head_dim + i], value, sum);
      }
    }
  }
  add_lanes<16>(sums);
  add_lanes<8>(sums);
  add_lanes<4>(sums);
  add_lanes<2>(sums);
  add_lanes<1>(sums);
  return sums[0];
}

/// Whether a row sees one of a warp's keys, from `first` on.
LOCKSTEP_DEVICE bool sees_some(const AttendParameters& p, const SeenBy& row, int first) {
  const bool is_early = first <= row.position;
  return is_early && (first + kKeysAtOnce > row.first || first < p.pinned);
}

LOCKSTEP_DEVICE void score_keys(const AttendTilesParameters& p, const Chunk& chunk, const Memory& memory) {
  const AttendParameters& a = p.attend;
  const int head = thread_index() % kWarpLanes % kHeadsAtOnce;
  const float* pinned_queries = memory.queries + kHeadsAtOnce * a.head_dim;
  const int tile_begin = chunk.tile * kTileTokens;
  for (int first = thread_index() / kWarpLanes * kKeysAtOnce; first < kTileTokens; first += kWarps * kKeysAtOnce) {
    const int token = first + thread_index() % kWarpLanes / kHeadsAtOnce;
    const int position = tile_begin + token;
    float score = -infinity();
    if (sees_some(a, chunk.seen, tile_begin + first)) {  // the same on all lanes
      const bool has_pinned = a.pinned_q != nullptr && tile_begin + first < a.pinned;
      const auto queries_at = [&](int key) { return tile_begin + key < a.pinned ? pinned_queries : memory.queries; };
      const float product = has_pinned
                                ? multiply_keys(memory.keys, first, a.head_dim, queries_at)
                                : multiply_keys(memory.keys, first, a.head_dim, [&](int) { return memory.queries; });
      const bool counts = head < chunk.heads && is_seen(a, chunk.seen, position);
      if (counts) score = score_of<F32Rows>(a, chunk.seen, p.heads[chunk.first + head], position, product);
    }
    memory.shared->scores[head][token] = score;
  }
}

/// The softmax of a head over the tile, by a warp.
LOCKSTEP_DEVICE void weigh_keys(const AttendTilesParameters& p, const Chunk& chunk, TilesShared& shared) {
  const int lane = thread_index() % kWarpLanes;
  const int head = thread_index() / kWarpLanes;
  const float* scores = shared.scores[head];
  const float maximum = warp_maximum(larger(scores[lane], scores[lane + kWarpLanes]));
  const float origin = origin_of(maximum);
  const float first = exp_of(plus(scores[lane], -origin));
  const float second = exp_of(plus(scores[lane + kWarpLanes], -origin));
  shared.weights[lane][head] = first;
  shared.weights[lane + kWarpLanes][head] = second;
  const float sum = warp_sum(plus(first, second));
  if (lane != 0 || head >= chunk.heads) return;
  const int64_t place = place_of(p, chunk.row, p.heads[chunk.first + head]) + chunk.place;
  p.of_rows.maxima[place] = maximum;
  p.of_rows.sums[place] = sum;
}

template <int kOwn>
struct alignas(4 * kOwn) Numbers {
  float number[kOwn];
};

/// The weighted values of a thread's heads and columns.
template <int kOwn>
LOCKSTEP_DEVICE void sum_values(const AttendTilesParameters& p, const Chunk& chunk, const Memory& memory) {
  const AttendParameters& a = p.attend;
  const Share share = share_of<kOwn>(a.value_columns);
  if (share.is_idle) return;
  const bool sees_all = is_whole(a, chunk.seen, chunk.tile);
  for (int column = share.column; column < a.value_columns; column += share.columns) {
    float sums[kOwn] = {};
    LOCKSTEP_UNROLL_BY(8)
    for (int token = 0; token < kTileTokens; ++token) {
      if (!sees_all && !is_seen(a, chunk.seen, chunk.tile * kTileTokens + token)) continue;
      const float value = memory.values[token * a.head_dim + column];
      const auto& weights = *reinterpret_cast<const Numbers<kOwn>*>(&memory.shared->weights[token][share.first_head]);
      LOCKSTEP_UNROLL
      for (int i = 0; i < kOwn; ++i) sums[i] = madd(weights.number[i], value, sums[i]);
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      if (share.first_head + i >= chunk.heads) continue;
      const int64_t place = place_of(p, chunk.row, p.heads[chunk.first + share.first_head + i]) + chunk.place;
      p.of_rows.values[place * a.value_columns + column] = sums[i];
    }
  }
}

template <bool kIsCoded>
LOCKSTEP_DEVICE void attend_unit(const AttendTilesParameters& p, const Unit& unit, const Unit& next, bool has_next,
                                 const Memory& memory) {
  const AttendParameters& a = p.attend;
  const SeenBy seen = seen_by(a, unit.row);
  const Needed needed = needed_by(a, seen);
  const int place = (unit.number - unit.first) / p.groups;
  const int group = (unit.number - unit.first) % p.groups;
  const int first = p.first_heads[group];
  const int end = p.first_heads[group + 1];
  for (int head = first; head < end; head += kHeadsAtOnce) {
    const int heads = end - head < kHeadsAtOnce ? end - head : kHeadsAtOnce;
    const Chunk chunk{unit.row, needed.tile(place), place, head, heads, seen};
    load_queries(p, chunk, memory.queries);
    if (head == first) wait_copies<1>();
    sync_block();
    score_keys(p, chunk, memory);
    sync_block();
    weigh_keys(p, chunk, *memory.shared);
    if (head + kHeadsAtOnce >= end) {  // the keys are read
      copy_keys<kIsCoded>(p, next, has_next, memory);
      wait_copies<1>();
    } else if (head == first) {
      wait_copies<0>();
    }
    sync_block();
    with_share(a.value_columns, [&]<int kOwn>() { sum_values<kOwn>(p, chunk, memory); });
  }
  sync_block();
  copy_values<kIsCoded>(p, next, has_next, memory);
  fold_if_last<F32Rows>(p, unit, needed.count, memory.shared->is_last, memory.shared->fold);
}

template <bool kIsCoded>
LOCKSTEP_DEVICE void attend_tiles(const AttendTilesParameters& p) {
  const Memory memory = memory_of(p);
  const int rows = used(p.attend.rows);  // as slots and positions, there before the step's first launch
  Unit unit{0, 0, block_index()};
  bool has_unit = find_row(p, rows, unit);
  if (has_unit) {
    bring_tile<CacheElement<kIsCoded>>(p, unit, p.attend.keys);
    if (memory.keys != memory.values) bring_tile<CacheElement<kIsCoded>>(p, unit, p.attend.values);
  }
  follow_previous();
  clear_padding<F32Rows>(p.attend, rows);
  if (!has_unit) return;
  copy_keys<kIsCoded>(p, unit, true, memory);
  copy_values<kIsCoded>(p, unit, true, memory);
  while (has_unit) {
    Unit next{unit.row, unit.first, unit.number + block_count()};
    const bool has_next = find_row(p, rows, next);
    attend_unit<kIsCoded>(p, unit, next, has_next, memory);
    unit = next;
    has_unit = has_next;
  }
  wait_copies<0>();
}

}  // namespace

static_assert(sizeof(TilesShared) == kAttendTilesFixedBytes && sizeof(FoldShared) == kAttendFoldSharedBytes);

LOCKSTEP_KERNEL(attend_tiles_f32, AttendTilesParameters, kAttendThreads) { attend_tiles<false>(p); }
LOCKSTEP_KERNEL(attend_tiles_codes_f32, AttendTilesParameters, kAttendThreads) { attend_tiles<true>(p); }

}  // namespace lockstep::cuda
