// Attention of few rows in 16 bits: their tiles side by side, on tensor cores, with the bits of attend_rows_16.cu.
//
//   unit: row, cache head, tile ─► K, V into shared memory ─► scores of up to 16 query heads, 16 keys a warp
//                                                             │
//                                    weights in shared memory ┴─► values, every fourth 16 columns a warp ─► maximum,
//                                    (and the next unit's K)                                                sum, values
//
// The query heads of a cache head are rows of one tile; the rows that none has are left as they are. What the row does
// not see of the values is zero. Values that are columns of the keys are read from the tile of keys, which stays until
// they are.
#include "runtime/backends/cuda/kernels/attention_16.h"
#include "runtime/backends/cuda/kernels/cache_codes.h"
#include "runtime/backends/cuda/kernels/tile_units.h"

namespace lockstep::cuda {
namespace {

constexpr int kWarps = kAttendThreads / kWarpLanes;
constexpr int kWeightStride = kTileTokens + kPadding16;
static_assert(kWarps * kQueriesOfTile == kTileTokens && kAttendTiles16Heads == kQueriesOfTile);

/// Ahead of the queries, [1 or 2][16][stride], and of a tile's keys and values, [64][stride] each.
struct Tiles16Shared {
  alignas(16) uint16_t weights[kQueriesOfTile][kWeightStride];
  float maxima[kWarps][kQueriesOfTile];
  FoldShared fold;
  int32_t is_last;
  int32_t padding[3];
};
static_assert(sizeof(Tiles16Shared) == kAttendTiles16FixedBytes);

template <typename Rows, bool kIsCoded>
class Block {
  using CacheElement = std::conditional_t<kIsCoded, unsigned char, uint16_t>;

 public:
  LOCKSTEP_DEVICE explicit Block(const AttendTilesParameters& p)
      : p_(p),
        a_(p.attend),
        shared_(shared_memory_of<Tiles16Shared>(p.shared_bytes)),
        steps_((a_.head_dim + kStepColumns - 1) / kStepColumns),
        stride_(steps_ * kStepColumns + kPadding16),
        queries_(reinterpret_cast<uint16_t*>(&shared_ + 1)),
        pinned_queries_(queries_ + kQueriesOfTile * stride_),
        keys_(queries_ + (a_.pinned_q == nullptr ? 1 : 2) * kQueriesOfTile * stride_),
        values_(a_.values == a_.keys ? keys_ : keys_ + kTileTokens * stride_),
        copies_(a_.head_dim, a_.head_dim % kChunk16 == 0),
        warp_(thread_index() / kWarpLanes),
        lane_(thread_index() % kWarpLanes) {}

  LOCKSTEP_DEVICE void run() {
    const int rows = used(a_.rows);  // as slots and positions, there before the step's first launch
    Unit unit{0, 0, block_index()};
    bool has_unit = find_row(p_, rows, unit);
    if (has_unit) {
      bring_tile<CacheElement>(p_, unit, a_.keys);
      if (keys_ != values_) bring_tile<CacheElement>(p_, unit, a_.values);
    }
    follow_previous();
    clear_padding<Rows>(a_, rows);
    if (!has_unit) return;
    copy_keys(unit, true);
    copy_values(unit, true);
    while (has_unit) {
      Unit next{unit.row, unit.first, unit.number + block_count()};
      const bool has_next = find_row(p_, rows, next);
      attend_unit(unit, next, has_next);
      unit = next;
      has_unit = has_next;
    }
    wait_copies<0>();
  }

 private:
  /// Up to 16 query heads of a unit.
  struct Chunk {
    int row;
    int tile;
    int place;  // of the tile among the row's
    int first;  // in AttendTilesParameters::heads
    int heads;
    SeenBy seen;
  };

  /// Starts the copy of what a unit sees of its tile, or decodes it; zeros elsewhere.
  LOCKSTEP_DEVICE void copy_tile(const Unit& unit, const void* cache, uint16_t* to) {
    const SeenBy seen = seen_by(a_, unit.row);
    const int tile = needed_by(a_, seen).tile((unit.number - unit.first) / p_.groups);
    const unsigned char* from = bytes_of<CacheElement>(p_, unit, cache).from;
    const auto sees = [&](int token) { return is_seen(a_, seen, tile * kTileTokens + token); };
    if constexpr (kIsCoded) {
      decode_tile(coded_tile(a_.tiles, from, a_.head_dim), 0, a_.head_dim, steps_ * kStepColumns, sees,
                  [&](int token, int column, float value) { to[token * stride_ + column] = Rows::write(value); });
    } else {
      copies_.start_tile(to, reinterpret_cast<const uint16_t*>(from), a_.head_dim, sees);
    }
  }

  /// A unit's copies are two groups: keys, which may replace those of the unit before once these are read, and values.
  LOCKSTEP_DEVICE void copy_keys(const Unit& unit, bool has_unit) {
    if (has_unit && keys_ != values_) copy_tile(unit, a_.keys, keys_);
    commit_copies();
  }
  /// Keys that are also values come with them, and the group of the values is empty.
  LOCKSTEP_DEVICE void copy_values(const Unit& unit, bool has_unit) {
    if (has_unit) copy_tile(unit, a_.values, values_);
    commit_copies();
    if (keys_ == values_) commit_copies();
  }

  LOCKSTEP_DEVICE void load_queries(const Chunk& chunk, const void* q, int64_t q_stride, uint16_t* queries) {
    const int columns = steps_ * kStepColumns;
    const uint16_t* from = static_cast<const uint16_t*>(q) + chunk.row * q_stride;
    for (int i = thread_index(); i < chunk.heads * columns; i += kAttendThreads) {
      const int own = i / columns;
      const int column = i % columns;
      const bool is_there = column < a_.head_dim;
      queries[own * stride_ + column] =
          is_there ? from[static_cast<int64_t>(p_.heads[chunk.first + own]) * a_.head_dim + column]
                   : static_cast<uint16_t>(0);
    }
  }

  /// The warp's scores: of 16 keys.
  LOCKSTEP_DEVICE void score(const Chunk& chunk, Square (&scores)[1]) {
    const int first = warp_ * kQueriesOfTile;
    const int position = chunk.tile * kTileTokens + first;
    const uint16_t* keys = keys_ + first * stride_;
    multiply_keys<Rows>(queries_, keys, stride_, steps_, scores);
    if (a_.pinned_q != nullptr && position < a_.pinned) {
      Square pinned[1];
      multiply_keys<Rows>(pinned_queries_, keys, stride_, steps_, pinned);
      take_pinned(a_, position, pinned[0], scores[0]);
    }
    LaneQuery queries[2];
    LOCKSTEP_UNROLL
    for (int row = 0; row < 2; ++row) {
      const int own = query_of_lane(row);
      const bool is_active = own < chunk.heads;
      queries[row] = {chunk.seen, is_active ? p_.heads[chunk.first + own] : 0, is_active};
    }
    finish_scores<Rows>(a_, queries, position, false, scores);
  }

  /// The weights of the warp's keys, for all warps, and the tile's maxima of the lane's rows.
  LOCKSTEP_DEVICE void weigh_keys(const Square (&scores)[1], float (&maxima)[2]) {
    own_maxima(scores, maxima);
    meet_lanes(maxima);
    if (lane_ % 4 == 0) {
      LOCKSTEP_UNROLL
      for (int row = 0; row < 2; ++row) shared_.maxima[warp_][query_of_lane(row)] = maxima[row];
    }
    sync_block();
    LOCKSTEP_UNROLL
    for (int row = 0; row < 2; ++row) {
      maxima[row] = shared_.maxima[0][query_of_lane(row)];
      LOCKSTEP_UNROLL
      for (int warp = 1; warp < kWarps; ++warp) {
        maxima[row] = larger_or_nan(maxima[row], shared_.maxima[warp][query_of_lane(row)]);
      }
    }
    uint32_t weights[4];
    weigh<Rows>(scores[0], maxima, weights);
    LOCKSTEP_UNROLL
    for (int i = 0; i < 4; ++i) {
      uint16_t* to = &shared_.weights[query_of_lane(i % 2)][warp_ * 16 + i / 2 * 8 + lane_ % 4 * 2];
      *reinterpret_cast<uint32_t*>(to) = weights[i];
    }
  }

  LOCKSTEP_DEVICE int64_t place_of_head(const Chunk& chunk, int own) const {
    return place_of(p_, chunk.row, p_.heads[chunk.first + own]) + chunk.place;
  }

  /// Writes the tile's softmax: the warp's columns of its values, and, by the first warp, maxima and sums.
  LOCKSTEP_DEVICE void add_values(const Chunk& chunk, const float (&maxima)[2]) {
    uint32_t weights[kTokenSteps][4];
    LOCKSTEP_UNROLL
    for (int step = 0; step < kTokenSteps; ++step) {
      load_matrices(weights[step], &shared_.weights[lane_ % 16][step * kStepColumns + lane_ / 16 * kChunk16]);
    }
    if (warp_ == 0) {
      float sums[2];
      sum_weights<Rows>(weights, sums);
      LOCKSTEP_UNROLL
      for (int row = 0; row < 2; ++row) {
        const int own = query_of_lane(row);
        if (own >= chunk.heads || lane_ % 4 != 0) continue;
        p_.of_rows.maxima[place_of_head(chunk, own)] = maxima[row];
        p_.of_rows.sums[place_of_head(chunk, own)] = sums[row];
      }
    }
    const int steps = (a_.value_columns + kStepColumns - 1) / kStepColumns;
    for (int step = warp_; step < steps; step += kWarps) {
      Square sums[1];
      multiply_values<Rows>(weights, values_ + step * kStepColumns, stride_, 1, sums);
      LOCKSTEP_UNROLL
      for (int i = 0; i < 8; ++i) {
        const int own = query_of_lane(row_of_element(i % 4));
        const int column = step * kStepColumns + place_of_element(i / 4, i % 4);
        if (own >= chunk.heads || column >= a_.value_columns) continue;
        p_.of_rows.values[place_of_head(chunk, own) * a_.value_columns + column] = sums[0].of[i / 4][i % 4];
      }
    }
  }

  LOCKSTEP_DEVICE void attend_unit(const Unit& unit, const Unit& next, bool has_next) {
    const SeenBy seen = seen_by(a_, unit.row);
    const Needed needed = needed_by(a_, seen);
    const int place = (unit.number - unit.first) / p_.groups;
    const int group = (unit.number - unit.first) % p_.groups;
    const int first = p_.first_heads[group];
    const int end = p_.first_heads[group + 1];
    for (int head = first; head < end; head += kQueriesOfTile) {
      const int heads = end - head < kQueriesOfTile ? end - head : kQueriesOfTile;
      const Chunk chunk{unit.row, needed.tile(place), place, head, heads, seen};
      load_queries(chunk, a_.q, a_.q_stride, queries_);
      if (a_.pinned_q != nullptr) load_queries(chunk, a_.pinned_q, a_.pinned_q_stride, pinned_queries_);
      if (head == first) wait_copies<1>();
      sync_block();
      Square scores[1];
      float maxima[2];
      score(chunk, scores);
      weigh_keys(scores, maxima);  // beyond its barrier the keys are read
      if (head + kQueriesOfTile >= end) {
        copy_keys(next, has_next);
        wait_copies<1>();
      } else if (head == first) {
        wait_copies<0>();
      }
      sync_block();
      add_values(chunk, maxima);
    }
    sync_block();
    copy_values(next, has_next);
    fold_if_last<Rows>(p_, unit, needed.count, shared_.is_last, shared_.fold);
  }

  const AttendTilesParameters& p_;
  const AttendParameters& a_;
  Tiles16Shared& shared_;
  const int steps_;   // of a head's columns
  const int stride_;  // of rows in shared memory
  uint16_t* const queries_;
  uint16_t* const pinned_queries_;
  uint16_t* const keys_;
  uint16_t* const values_;
  const RowCopies copies_;
  const int warp_;
  const int lane_;
};

}  // namespace

LOCKSTEP_KERNEL(attend_tiles_bf16, AttendTilesParameters, kAttendThreads) { Block<Bf16Rows, false>(p).run(); }
LOCKSTEP_KERNEL(attend_tiles_f16, AttendTilesParameters, kAttendThreads) { Block<F16Rows, false>(p).run(); }
LOCKSTEP_KERNEL(attend_tiles_codes_bf16, AttendTilesParameters, kAttendThreads) { Block<Bf16Rows, true>(p).run(); }
LOCKSTEP_KERNEL(attend_tiles_codes_f16, AttendTilesParameters, kAttendThreads) { Block<F16Rows, true>(p).run(); }

}  // namespace lockstep::cuda
