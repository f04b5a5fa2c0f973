// Attention of many rows in 16 bits, on tensor cores: 64 or 128 queries of one head of the cache share each tile of
// keys and values; a warp has 16 of them.
//
//   keys    │ tile n ──────────────────► │ tile n + 1 ───────────────►     copied while the values are multiplied
//   values  │        tile n ───────────► │            tile n + 1 ────►     copied while the keys are
//   warp    │ scores, weights │ values, folded into those of the tiles before │ scores, …
//
// Scores, weights and a tile's values stay in registers. Of heads with more than 128 columns a block gives 128 columns
// of the result; blocks of the other columns make the same scores. Where values are columns of the keys (attend_pairs),
// two warps share 16 queries instead: each makes the scores of half of the keys, and the values of half of the columns.
//
//   keys    │ tile n + 1 ──────────────────────────────────────────────────►
//   warps   │ scores of tile n ─ maxima ─ weights in shared memory ─ values
#pragma once

#include "runtime/backends/cuda/kernels/attention_16.h"
#include "runtime/backends/cuda/kernels/cache_codes.h"

namespace lockstep::cuda {

constexpr int kKeySquares = kTileTokens / kStepColumns;
constexpr int kWeightChunks = kTileTokens / kChunk16;  // of 16 bytes, of a query's weights in shared memory

/// `kWarps` have 16 queries together.
template <typename Rows, int kWarps, bool kIsCoded>
class RowsBlock {
  using CacheElement = std::conditional_t<kIsCoded, unsigned char, uint16_t>;
  static constexpr bool kIsPair = kWarps == 2;
  static constexpr int kOwnKeys = kKeySquares / kWarps;
  /// Of the result, at most.
  static constexpr int kSquares = (kIsPair ? kMostValueColumns / kWarps : kRowsHeadDim) / kStepColumns;
  static constexpr int kAtOnce = 2;  // of them: four chains side by side
  static_assert(kSquares % kAtOnce == 0);

 public:
  LOCKSTEP_DEVICE explicit RowsBlock(const AttendRowsParameters& p)
      : p_(p),
        a_(p.attend),
        steps_((a_.head_dim + kStepColumns - 1) / kStepColumns),
        stride_(steps_ * kStepColumns + kPadding16),
        own_(kIsPair ? thread_index() / kWarpLanes % kWarps : 0),
        first_column_(kIsPair ? own_ * columns_of_warp() : block_index() % p.parts * kRowsHeadDim),
        columns_(columns_from(first_column_)),
        squares_((columns_ + kStepColumns - 1) / kStepColumns),
        values_stride_(kIsPair ? stride_ : squares_ * kStepColumns + kPadding16),
        heads_(p.heads + block_index() / p.parts % p.chunks * p.heads_at_once),
        first_query_(thread_index() / kWarpLanes / kWarps * kQueriesOfTile),
        queries_(&shared_memory_of<uint16_t>(p.shared_bytes)),
        pinned_queries_(queries_ + queries_of_block() * stride_),
        keys_(queries_ + (a_.pinned_q == nullptr ? 1 : 2) * queries_of_block() * stride_),
        values_(keys_ + kTileTokens * stride_),
        key_copies_(copies_of(a_.head_dim)),
        value_copies_(copies_of(kIsPair ? a_.head_dim : columns_)) {
    // The rows with the most to see come first.
    const int blocks = (a_.rows.rows + p.rows_of_block - 1) / p.rows_of_block;
    first_row_ = (blocks - 1 - block_index() / p.parts / p.chunks) * p.rows_of_block;
    const int end = first_row_ + p.rows_of_block;
    end_row_ = end < used(a_.rows) ? end : used(a_.rows);
  }

  LOCKSTEP_DEVICE void run() {
    follow_previous();  // the rows in use are there before the step's first launch
    if (first_row_ >= end_row_) return;
    load_queries(a_.q, a_.q_stride, queries_);
    if (a_.pinned_q != nullptr) load_queries(a_.pinned_q, a_.pinned_q_stride, pinned_queries_);
    LOCKSTEP_UNROLL
    for (int row = 0; row < 2; ++row) {
      const int head = head_of(first_query_ + query_of_lane(row));
      maxima_[row] = head < 0 ? 0.0f : first_maximum<Rows>(a_, head);
      sums_[row] = first_sum(a_);
    }
    LOCKSTEP_UNROLL
    for (Square& square : all_) clear(square);
    for (int begin = first_row_; begin < end_row_;) {  // rows of one slot
      int end = begin + 1;
      while (end < end_row_ && a_.slot[end] == a_.slot[begin]) ++end;
      if (a_.slot[begin] >= 0) attend_slot(begin, end);
      begin = end;
    }
    wait_copies<0>();
    write();
  }

 private:
  LOCKSTEP_DEVICE static int queries_of_block() { return thread_count() / kWarpLanes / kWarps * kQueriesOfTile; }
  /// The columns of the result that a warp of a pair has: whole squares.
  LOCKSTEP_DEVICE int columns_of_warp() const {
    const int squares = (a_.value_columns + kStepColumns - 1) / kStepColumns;
    return (squares + kWarps - 1) / kWarps * kStepColumns;
  }
  /// The columns of the result that a block or a warp has from `first` on.
  LOCKSTEP_DEVICE int columns_from(int first) const {
    const int left = a_.value_columns > first ? a_.value_columns - first : 0;
    const int most = kIsPair ? columns_of_warp() : kRowsHeadDim;
    return left < most ? left : most;
  }
  LOCKSTEP_DEVICE int row_of(int query) const { return first_row_ + query / p_.heads_at_once; }
  /// −1: there is none.
  LOCKSTEP_DEVICE int head_of(int query) const {
    const bool is_there = query / p_.heads_at_once < p_.rows_of_block && row_of(query) < end_row_;
    return is_there ? heads_[query % p_.heads_at_once] : -1;
  }

  /// Starts the copies of the block's queries.
  LOCKSTEP_DEVICE void load_queries(const void* q, int64_t q_stride, uint16_t* to) const {
    const RowCopies copies(a_.head_dim, are_aligned(q, q_stride, a_.head_dim));
    const uint16_t* from = static_cast<const uint16_t*>(q);
    copies.start(to, queries_of_block(), q, [&](int query) {
      const int head = head_of(query);
      return head < 0 ? nullptr : from + row_of(query) * q_stride + static_cast<int64_t>(head) * a_.head_dim;
    });
  }

  LOCKSTEP_DEVICE Span span_of(int begin, int end) const {
    float first = -infinity(), last = -infinity();  // of at most 2²⁴
    for (int row = begin + thread_index() % kWarpLanes; row < end; row += kWarpLanes) {
      const SeenBy seen = seen_by(a_, row);
      first = larger(first, -static_cast<float>(seen.first));
      last = larger(last, static_cast<float>(seen.position));
    }
    const int first_position = static_cast<int>(-warp_maximum(first));
    return {(a_.pinned + kTileTokens - 1) / kTileTokens, first_position / kTileTokens,
            static_cast<int>(warp_maximum(last))};
  }

  /// Where a pair's tiles of keys lie, in turn; all of others lie in one place.
  LOCKSTEP_DEVICE uint16_t* tile_of_keys(int turn) const {
    return kIsPair ? queries_ + (kRowsQueries + turn * kTileTokens) * stride_ : keys_;
  }

  LOCKSTEP_DEVICE RowCopies copies_of(int columns) const { return {columns, a_.head_dim % kChunk16 == 0}; }
  /// Starts the copy of a tile's keys; of a pair, into the place of those before.
  LOCKSTEP_DEVICE void copy_keys(int slot, int tile, int tokens) {
    const RowCopies copies = kIsPair ? copies_of(a_.head_dim) : key_copies_;
    copy_tile(copies, {tile_of_keys(1 - turn_), stride_, 0, a_.head_dim}, a_.keys, slot, tile, tokens);
  }
  LOCKSTEP_DEVICE void copy_values(int slot, int tile, int tokens) {
    copy_tile(value_copies_, {values_, values_stride_, first_column_, columns_}, a_.values, slot, tile, tokens);
  }
  /// Columns of a tile in shared memory.
  struct TileColumns {
    uint16_t* to;
    int stride;
    int first;
    int columns;
  };
  /// The first `tokens` rows; zeros behind them.
  LOCKSTEP_DEVICE void copy_tile(const RowCopies& copies, const TileColumns& own, const void* cache, int slot, int tile,
                                 int tokens) const {
    const CacheElement* from =
        static_cast<const CacheElement*>(cache) + tile_at(a_, slot, tile, a_.head_map[heads_[0]]);
    const auto is_there = [&](int token) { return token < tokens; };
    if constexpr (kIsCoded) {
      decode_tile(
          coded_tile(a_.tiles, from, a_.head_dim), own.first, own.columns, own.stride - kPadding16, is_there,
          [&](int token, int column, float value) { own.to[token * own.stride + column] = Rows::write(value); });
    } else {
      copies.start_tile(own.to, from + own.first, a_.head_dim, is_there);
    }
    commit_copies();
  }

  /// Rows [begin, end) of one slot, tile after tile.
  LOCKSTEP_DEVICE void attend_slot(int begin, int end) {
    const int slot = a_.slot[begin];
    Span span = span_of(begin, end);
    const int tokens = span.last + 1;
    LaneQuery own[2];
    LOCKSTEP_UNROLL
    for (int row = 0; row < 2; ++row) {
      const int query = first_query_ + query_of_lane(row);
      const int at = row_of(query);
      const bool is_active = head_of(query) >= 0 && at >= begin && at < end;
      own[row] = {seen_by(a_, is_active ? at : begin), head_of(query), is_active};
    }
    int tile = span.begin();
    copy_keys(slot, tile, tokens - tile * kTileTokens);
    while (tile * kTileTokens < tokens) {
      const int next = span.after(tile);
      wait_copies<0>();
      sync_block();  // the keys are there, and all warps are done with the last values
      TileWeights weights;
      bool is_needed = false;
      if constexpr (kIsPair) {
        turn_ = 1 - turn_;
        if (next * kTileTokens < tokens) copy_keys(slot, next, tokens - next * kTileTokens);
        is_needed = weigh_tile_in_pair(own, tile, weights);
      } else {
        copy_values(slot, tile, tokens - tile * kTileTokens);
        is_needed = weigh_tile(own, tile, weights);
        wait_copies<0>();
        sync_block();  // the values are there, and all warps are done with the keys
        if (next * kTileTokens < tokens) copy_keys(slot, next, tokens - next * kTileTokens);
      }
      if (is_needed) add_values(tile, begin, end, weights);
      tile = next;
    }
  }

  LOCKSTEP_DEVICE bool needs(const LaneQuery& query, int tile) const {
    const int first = tile * kTileTokens;
    return query.is_active && first <= query.seen.position &&
           (first + kTileTokens > query.seen.first || first < a_.pinned);
  }

  /// The scores of the warp's queries with its keys of a tile; false: none of the queries needs it.
  LOCKSTEP_DEVICE bool score_tile(const LaneQuery (&own)[2], int tile, TileWeights& weights,
                                  Square (&scores)[kOwnKeys]) const {
    LOCKSTEP_UNROLL
    for (int row = 0; row < 2; ++row) weights.folds[row] = needs(own[row], tile);
    if (!any_of_warp(weights.folds[0] || weights.folds[1])) return false;
    const auto sees_all = [&](const LaneQuery& query) { return query.is_active && is_whole(a_, query.seen, tile); };
    weights.sees_all = !any_of_warp(!sees_all(own[0]) || !sees_all(own[1]));
    const int first_key = own_ * kOwnKeys * kQueriesOfTile;
    const uint16_t* queries = queries_ + first_query_ * stride_;
    multiply_keys<Rows>(queries, tile_of_keys(turn_) + first_key * stride_, stride_, steps_, scores);
    if (!kIsPair && a_.pinned_q != nullptr && tile * kTileTokens < a_.pinned) {
      LOCKSTEP_UNROLL
      for (int square = 0; square < kOwnKeys; ++square) {
        Square pinned[1];
        multiply_keys<Rows>(pinned_queries_ + first_query_ * stride_, keys_ + square * 16 * stride_, stride_, steps_,
                            pinned);
        take_pinned(a_, tile * kTileTokens + square * 16, pinned[0], scores[square]);
      }
    }
    finish_scores<Rows>(a_, own, tile * kTileTokens + first_key, weights.sees_all, scores);
    return true;
  }

  /// The softmax of the warp's queries over a tile; false: none of them needs it.
  LOCKSTEP_DEVICE bool weigh_tile(const LaneQuery (&own)[2], int tile, TileWeights& weights) {
    Square scores[kOwnKeys];
    if (!score_tile(own, tile, weights, scores)) return false;
    float maxima[2];
    own_maxima(scores, maxima);
    meet_lanes(maxima);
    LOCKSTEP_UNROLL
    for (int step = 0; step < kTokenSteps; ++step) weigh<Rows>(scores[step], maxima, weights.at[step]);
    fold_tile(maxima, weights);
    return true;
  }

  /// The same by the warps of a pair, which meet with all others. The largest scores of their keys lie behind the
  /// queries' columns.
  LOCKSTEP_DEVICE bool weigh_tile_in_pair(const LaneQuery (&own)[2], int tile, TileWeights& weights) {
    Square scores[kOwnKeys];
    const bool is_needed = score_tile(own, tile, weights, scores);
    const auto maxima_of = [&](int row) {
      const int query = first_query_ + query_of_lane(row);
      return reinterpret_cast<float*>(queries_ + query * stride_ + steps_ * kStepColumns);
    };
    float maxima[2];
    if (is_needed) {
      own_maxima(scores, maxima);
      meet_lanes(maxima);
      LOCKSTEP_UNROLL
      for (int row = 0; row < 2; ++row) {
        if (thread_index() % 4 == 0) maxima_of(row)[own_] = maxima[row];
      }
    }
    sync_block();
    if (is_needed) {
      LOCKSTEP_UNROLL
      for (int row = 0; row < 2; ++row) maxima[row] = larger_or_nan(maxima_of(row)[0], maxima_of(row)[1]);
      LOCKSTEP_UNROLL
      for (int square = 0; square < kOwnKeys; ++square) {
        uint32_t own_weights[4];
        weigh<Rows>(scores[square], maxima, own_weights);
        LOCKSTEP_UNROLL
        for (int i = 0; i < 4; ++i) {
          uint16_t* chunk = weights_of(first_query_ + query_of_lane(i % 2), (own_ * kOwnKeys + square) * 2 + i / 2);
          *reinterpret_cast<uint32_t*>(chunk + thread_index() % 4 * 2) = own_weights[i];
        }
      }
    }
    sync_block();
    if (!is_needed) return false;
    const int lane = thread_index() % kWarpLanes;
    LOCKSTEP_UNROLL
    for (int step = 0; step < kTokenSteps; ++step) {
      load_matrices(weights.at[step], weights_of(first_query_ + lane % 16, step * 2 + lane / 16));
    }
    fold_tile(maxima, weights);
    return true;
  }

  /// Eight weights of a query; those of eight queries lie in unlike banks.
  LOCKSTEP_DEVICE uint16_t* weights_of(int query, int chunk) const {
    uint16_t* weights = tile_of_keys(2);  // behind both
    return weights + (query * kWeightChunks + (chunk ^ query % kWeightChunks)) * kChunk16;
  }

  /// How a tile joins those before.
  LOCKSTEP_DEVICE void fold_tile(const float (&maxima)[2], TileWeights& weights) {
    float sums[2];
    sum_weights<Rows>(weights.at, sums);
    LOCKSTEP_UNROLL
    for (int row = 0; row < 2; ++row) {
      weights.factors[row] = fold_factors(maxima_[row], maxima[row]);
      if (!weights.folds[row]) continue;
      sums_[row] = folded_sum(sums_[row], sums[row], weights.factors[row]);
      maxima_[row] = larger(maxima_[row], maxima[row]);
    }
  }

  /// The values of a tile: of a pair, columns of its keys.
  LOCKSTEP_DEVICE const uint16_t* tile_values() const {
    return kIsPair ? tile_of_keys(turn_) + first_column_ : values_;
  }

  /// The tile's weighted values, folded into those of the tiles before. Values that some of the queries do not see and
  /// that are not finite are taken out for each query apart.
  LOCKSTEP_DEVICE void add_values(int tile, int begin, int end, const TileWeights& weights) {
    if (weights.sees_all || !holds_infinity<Rows>(tile_values(), values_stride_, squares_)) {
      add_squares(
          weights, [](int) { return true; }, AllTokens{});
      return;
    }
    LOCKSTEP_NO_UNROLL
    for (int query = 0; query < kQueriesOfTile; ++query) {
      const int row = row_of(first_query_ + query);
      if (row < begin || row >= end) continue;  // the same on all lanes
      const SeenBy seen = seen_by(a_, row);
      // `is_seen` of a position within the tile; a call of it more than doubles what this kernel spills.
      add_squares(
          weights, [query](int own) { return query_of_lane(own) == query; },
          [this, position = seen.position - tile * kTileTokens, first = seen.first - tile * kTileTokens,
           pinned = a_.pinned - tile * kTileTokens](int token) {
            return token <= position && (token >= first || token < pinned);
          });
    }
  }

  /// The same for the lane's rows that `is_own` names, of the tokens that `sees` names.
  template <typename IsOwn, typename Sees>
  LOCKSTEP_DEVICE void add_squares(const TileWeights& weights, IsOwn is_own, Sees sees) {
    LOCKSTEP_UNROLL
    for (int first = 0; first < kSquares; first += kAtOnce) {
      if (first >= squares_) break;
      Square of_tile[kAtOnce];
      multiply_values<Rows>(weights.at, tile_values() + first * kStepColumns, values_stride_, squares_ - first, of_tile,
                            sees);
      LOCKSTEP_UNROLL
      for (int i = 0; i < 8 * kAtOnce; ++i) {
        float& sum = all_[first + i / 8].of[i / 4 % 2][i % 4];
        const int row = row_of_element(i % 4);
        const float folded = folded_value(sum, of_tile[i / 8].of[i / 4 % 2][i % 4], weights.factors[row]);
        sum = weights.folds[row] && is_own(row) ? folded : sum;
      }
    }
  }

  /// The results; zeros of rows without a slot.
  LOCKSTEP_DEVICE void write() const {
    LOCKSTEP_UNROLL
    for (int i = 0; i < 8 * kSquares; ++i) {
      if (i / 8 >= squares_) break;
      const int row = row_of_element(i % 4);
      const int query = first_query_ + query_of_lane(row);
      const int head = head_of(query);
      const int column = i / 8 * kStepColumns + place_of_element(i / 4 % 2, i % 4);
      if (head < 0 || column >= columns_) continue;
      const float value = a_.slot[row_of(query)] < 0 ? 0.0f : divide(all_[i / 8].of[i / 4 % 2][i % 4], sums_[row]);
      static_cast<uint16_t*>(
          a_.y)[row_of(query) * a_.y_stride + static_cast<int64_t>(head) * a_.value_columns + first_column_ + column] =
          Rows::write(value);
    }
  }

  const AttendRowsParameters& p_;
  const AttendParameters& a_;
  const int steps_;         // of a head's columns
  const int stride_;        // of queries and keys in shared memory
  const int own_;           // of the warps of a pair
  const int first_column_;  // of the block's part, or of the warp's
  const int columns_;
  const int squares_;
  const int values_stride_;
  const int32_t* const heads_;
  const int first_query_;  // of the warp
  uint16_t* const queries_;
  uint16_t* const pinned_queries_;
  uint16_t* const keys_;
  uint16_t* const values_;  // of a pair, another tile of keys
  const RowCopies key_copies_;
  const RowCopies value_copies_;
  int first_row_;
  int end_row_;
  int turn_ = 0;     // of a pair's tiles
  float maxima_[2];  // of the lane's rows, over the tiles so far
  float sums_[2];
  Square all_[kSquares];
};

}  // namespace lockstep::cuda
