// Attention of few rows: their tiles side by side, with the bits of attend.cu.
//
//   unit: row, cache head, tile ─► K, V into shared memory ─► scores of 4 query heads ─► softmax ─► maximum, sum,
//   values
//                                  (the next unit's K as soon as the scores are there)                     │
//   the block that brings the last tile of a row and cache head folds all of them in order ◄──────────────┘
//
// The query heads of a cache head share one read of its keys and values. A score is what a warp gets that adds
// head_dim / 32 products a lane and then meets in a butterfly; here a butterfly adds 32 scores at once, so that each
// lane ends with one of them.
#include "runtime/backends/cuda/kernels/tile_fold.h"

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

/// The block's memory.
template <typename Rows>
struct Memory {
  using Element = typename Rows::Element;
  TilesShared* shared;
  float* queries;  // [2, kHeadsAtOnce, head_dim]: also those for pinned positions
  Element* keys;
  Element* values;
};

template <typename Rows>
LOCKSTEP_DEVICE Memory<Rows> memory_of(const AttendTilesParameters& p) {
  auto& shared = shared_memory_of<TilesShared>(p.shared_bytes);
  auto* queries = reinterpret_cast<float*>(&shared + 1);
  auto* keys = reinterpret_cast<typename Rows::Element*>(queries + 2 * kHeadsAtOnce * p.attend.head_dim);
  return {&shared, queries, keys, keys + kTileTokens * p.attend.head_dim};
}

/// Rows of a tile that a unit reads.
struct TileBytes {
  const unsigned char* from;
  int bytes;
};

template <typename Rows>
LOCKSTEP_DEVICE TileBytes bytes_of(const AttendTilesParameters& p, const Unit& unit, const void* cache) {
  using Element = typename Rows::Element;
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

/// Starts the copy of what a unit reads of its tile.
template <typename Rows>
LOCKSTEP_DEVICE void copy_tile(const AttendTilesParameters& p, const Unit& unit, const void* cache,
                               typename Rows::Element* to) {
  const TileBytes tile = bytes_of<Rows>(p, unit, cache);
  for (int at = thread_index() * 16; at < tile.bytes; at += kAttendThreads * 16) {
    copy_async_16(reinterpret_cast<unsigned char*>(to) + at, tile.from + at);
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void bring_tile(const AttendTilesParameters& p, const Unit& unit, const void* cache) {
  const TileBytes tile = bytes_of<Rows>(p, unit, cache);
  for (int at = thread_index() * kBroughtBytes; at < tile.bytes; at += kAttendThreads * kBroughtBytes) {
    bring_closer(tile.from + at);
  }
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

template <typename Rows>
LOCKSTEP_DEVICE void load_queries(const AttendTilesParameters& p, const Chunk& chunk, float* queries) {
  using Element = typename Rows::Element;
  const AttendParameters& a = p.attend;
  for (int i = thread_index(); i < kHeadsAtOnce * a.head_dim; i += kAttendThreads) {
    const int own = i / a.head_dim;
    const int64_t column =
        own < chunk.heads ? static_cast<int64_t>(p.heads[chunk.first + own]) * a.head_dim + i % a.head_dim : 0;
    const auto read = [&](const void* q, int64_t stride) {
      return own < chunk.heads ? Rows::read(static_cast<const Element*>(q)[chunk.row * stride + column]) : 0.0f;
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
template <typename Rows, typename QueriesAt>
LOCKSTEP_DEVICE float multiply_keys(const typename Rows::Element* keys, int first, int head_dim, QueriesAt queries_at) {
  const int lane = thread_index() % kWarpLanes;
  float sums[kWarpLanes] = {};
  for (int i = lane; i < head_dim; i += kWarpLanes) {
    LOCKSTEP_UNROLL
    for (int key = 0; key < kKeysAtOnce; ++key) {
      const float value = Rows::read(keys[(first + key) * head_dim + i]);
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

template <typename Rows>
LOCKSTEP_DEVICE void score_keys(const AttendTilesParameters& p, const Chunk& chunk, const Memory<Rows>& memory) {
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
      const float product =
          has_pinned ? multiply_keys<Rows>(memory.keys, first, a.head_dim, queries_at)
                     : multiply_keys<Rows>(memory.keys, first, a.head_dim, [&](int) { return memory.queries; });
      const bool counts = head < chunk.heads && is_seen(a, chunk.seen, position);
      if (counts) score = score_of<Rows>(a, chunk.seen, p.heads[chunk.first + head], position, product);
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
template <typename Rows, int kOwn>
LOCKSTEP_DEVICE void sum_values(const AttendTilesParameters& p, const Chunk& chunk, const Memory<Rows>& memory) {
  const AttendParameters& a = p.attend;
  const Share share = share_of<kOwn>(a.head_dim);
  if (share.is_idle) return;
  const bool sees_all = is_whole(a, chunk.seen, chunk.tile);
  for (int column = share.column; column < a.head_dim; column += share.columns) {
    float sums[kOwn] = {};
    LOCKSTEP_UNROLL_BY(8)
    for (int token = 0; token < kTileTokens; ++token) {
      if (!sees_all && !is_seen(a, chunk.seen, chunk.tile * kTileTokens + token)) continue;
      const float value = Rows::read(memory.values[token * a.head_dim + column]);
      const auto& weights = *reinterpret_cast<const Numbers<kOwn>*>(&memory.shared->weights[token][share.first_head]);
      LOCKSTEP_UNROLL
      for (int i = 0; i < kOwn; ++i) sums[i] = madd(weights.number[i], value, sums[i]);
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      if (share.first_head + i >= chunk.heads) continue;
      const int64_t place = place_of(p, chunk.row, p.heads[chunk.first + share.first_head + i]) + chunk.place;
      p.of_rows.values[place * a.head_dim + column] = sums[i];
    }
  }
}

/// After a unit: whether all tiles of its row and group are done.
LOCKSTEP_DEVICE bool comes_last(const AttendTilesParameters& p, int row, int group, int tiles, TilesShared& shared) {
  sync_block();
  if (thread_index() == 0) {
    uint32_t* arrivals = p.arrivals + static_cast<int64_t>(row) * p.groups + group;
    shared.is_last = count_arrival(arrivals) == static_cast<uint32_t>(tiles) ? 1 : 0;
    if (shared.is_last != 0) *arrivals = 0;
  }
  sync_block();
  return shared.is_last != 0;
}

/// Rows without a slot give zeros.
template <typename Rows>
LOCKSTEP_DEVICE void clear_padding(const AttendParameters& p, int rows) {
  using Element = typename Rows::Element;
  for (int row = block_index(); row < rows; row += block_count()) {
    if (p.slot[row] >= 0) continue;
    Element* y = static_cast<Element*>(p.y) + row * p.y_stride;
    for (int i = thread_index(); i < p.heads * p.head_dim; i += kAttendThreads) y[i] = Rows::write(0.0f);
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void attend_unit(const AttendTilesParameters& p, const Unit& unit, const Unit& next, bool has_next,
                                 const Memory<Rows>& memory) {
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
    load_queries<Rows>(p, chunk, memory.queries);
    if (head == first) wait_copies<1>();
    sync_block();
    score_keys(p, chunk, memory);
    sync_block();
    weigh_keys(p, chunk, *memory.shared);
    if (head + kHeadsAtOnce >= end) {  // the keys are read
      if (has_next) copy_tile<Rows>(p, next, a.keys, memory.keys);
      commit_copies();
      wait_copies<1>();
    } else if (head == first) {
      wait_copies<0>();
    }
    sync_block();
    with_share(a.head_dim, [&]<int kOwn>() { sum_values<Rows, kOwn>(p, chunk, memory); });
  }
  sync_block();
  if (has_next) copy_tile<Rows>(p, next, a.values, memory.values);
  commit_copies();
  if (p.arrivals == nullptr || !comes_last(p, unit.row, group, needed.count, *memory.shared)) return;
  for (int head = first; head < end; head += kHeadsAtOnce) {
    const int heads = end - head < kHeadsAtOnce ? end - head : kHeadsAtOnce;
    with_share(a.head_dim, [&]<int kOwn>() {
      fold_heads<Rows, kOwn>(p, unit.row, p.heads + head, heads, needed.count, memory.shared->fold);
    });
  }
}

template <typename Rows>
LOCKSTEP_DEVICE void attend_tiles(const AttendTilesParameters& p) {
  const Memory<Rows> memory = memory_of<Rows>(p);
  const int rows = used(p.attend.rows);  // as slots and positions, there before the step's first launch
  Unit unit{0, 0, block_index()};
  bool has_unit = find_row(p, rows, unit);
  if (has_unit) {
    bring_tile<Rows>(p, unit, p.attend.keys);
    bring_tile<Rows>(p, unit, p.attend.values);
  }
  follow_previous();
  clear_padding<Rows>(p.attend, rows);
  if (!has_unit) return;
  copy_tile<Rows>(p, unit, p.attend.keys, memory.keys);
  commit_copies();
  copy_tile<Rows>(p, unit, p.attend.values, memory.values);
  commit_copies();
  while (has_unit) {
    Unit next{unit.row, unit.first, unit.number + block_count()};
    const bool has_next = find_row(p, rows, next);
    attend_unit<Rows>(p, unit, next, has_next, memory);
    unit = next;
    has_unit = has_next;
  }
  wait_copies<0>();
}

template <typename Rows>
LOCKSTEP_DEVICE void attend_fold(const AttendTilesParameters& p) {
  follow_previous();
  const AttendParameters& a = p.attend;
  const int row = block_index() / a.heads;
  const int32_t head = block_index() % a.heads;
  if (row >= used(a.rows) || a.slot[row] < 0) return;
  const int tiles = needed_by(a, seen_by(a, row)).count;
  fold_heads<Rows, 1>(p, row, &head, 1, tiles, shared_memory<FoldShared>());
}

}  // namespace

static_assert(sizeof(TilesShared) == kAttendTilesFixedBytes && sizeof(FoldShared) == kAttendFoldSharedBytes);

LOCKSTEP_KERNEL(attend_tiles_f32, AttendTilesParameters, kAttendThreads) { attend_tiles<F32Rows>(p); }
LOCKSTEP_KERNEL(attend_tiles_bf16, AttendTilesParameters, kAttendThreads) { attend_tiles<Bf16Rows>(p); }
LOCKSTEP_KERNEL(attend_tiles_f16, AttendTilesParameters, kAttendThreads) { attend_tiles<F16Rows>(p); }
LOCKSTEP_KERNEL(attend_fold_f32, AttendTilesParameters, kAttendThreads) { attend_fold<F32Rows>(p); }
LOCKSTEP_KERNEL(attend_fold_bf16, AttendTilesParameters, kAttendThreads) { attend_fold<Bf16Rows>(p); }
LOCKSTEP_KERNEL(attend_fold_f16, AttendTilesParameters, kAttendThreads) { attend_fold<F16Rows>(p); }

}  // namespace lockstep::cuda
