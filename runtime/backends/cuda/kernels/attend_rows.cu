// Attention of many rows in f32, with the bits of attend.cu: up to 64 queries of one head of the cache share each tile
// of keys and values.
//
//   block: some rows × up to 4 query heads of a cache head = 64 queries, 8 a warp
//
//   for each tile:   keys ─► shared memory ─► scores ─► softmax of each query
//                    values ─► the same place ─► weighted values, folded into those of the tiles before
//
// A score is what a warp gets that adds every 32nd product on a lane and then meets in a butterfly. Here a thread does
// that alone, for two queries and two keys at a time: 32 short chains, added as the butterfly would. Columns of queries
// and keys lie so that 16 bytes hold two links of two chains: (l, l + 1, l + 32, l + 33).
#include "runtime/backends/cuda/kernels/cache_codes.h"
#include "runtime/backends/cuda/kernels/query_pairs.h"

namespace lockstep::cuda {
namespace {

constexpr int kOwn = 8;                              // queries of a warp
constexpr int kScoreStride = kRowsQueries + 4;       // between tokens
constexpr int kColumns = kRowsHeadDim / kWarpLanes;  // of the result, for each lane
static_assert(kColumns == kWords && kRowsThreads / kWarpLanes * kOwn == kRowsQueries);

/// Ahead of the queries and a tile, [64][stride] each, as f32.
struct RowsShared {
  float scores[kTileTokens][kScoreStride];  // then weights
  float maxima[kRowsQueries];               // of the tiles so far
  float sums[kRowsQueries];
  float of_all[kRowsQueries];  // FoldFactors of the tile
  float of_tile[kRowsQueries];
  uint8_t sees[kTileTokens][kRowsQueries / kOwn];  // by warp: its queries that see the token, as bits
};

template <bool kIsCoded>
class Block {
 public:
  LOCKSTEP_DEVICE Block(const AttendRowsParameters& p, RowsShared& shared)
      : p_(p),
        a_(p.attend),
        shared_(shared),
        columns_((p.attend.head_dim + kRowsPadding - 1) / kRowsPadding * kRowsPadding),
        stride_(columns_ + kWords),
        queries_(reinterpret_cast<float*>(&shared + 1)),
        tile_(queries_ + kRowsQueries * stride_),
        lane_(thread_index() % kWarpLanes),
        first_own_(thread_index() / kWarpLanes * kOwn),
        heads_(p.heads + block_index() % p.chunks * p.heads_at_once),
        first_row_(block_index() / p.chunks * p.rows_of_block) {
    const int end = first_row_ + p.rows_of_block;
    end_row_ = end < used(p.attend.rows) ? end : used(p.attend.rows);
  }

  LOCKSTEP_DEVICE void run() {
    if (first_row_ >= end_row_) return;
    load_queries();
    for (int begin = first_row_; begin < end_row_;) {  // rows of one slot
      int end = begin + 1;
      while (end < end_row_ && a_.slot[end] == a_.slot[begin]) ++end;
      if (a_.slot[begin] >= 0) attend_slot(begin, end);
      begin = end;
    }
    write();
  }

 private:
  LOCKSTEP_DEVICE int row_of(int query) const { return first_row_ + query / p_.heads_at_once; }
  /// −1: there is none.
  LOCKSTEP_DEVICE int head_of(int query) const {
    return query / p_.heads_at_once < p_.rows_of_block ? heads_[query % p_.heads_at_once] : -1;
  }

  LOCKSTEP_DEVICE void load_queries() {
    LOCKSTEP_NO_UNROLL
    for (int i = thread_index(); i < kRowsQueries * columns_; i += kRowsThreads) {
      const int query = i / columns_;
      const int column = i % columns_;
      const int head = head_of(query);
      const bool is_there = head >= 0 && row_of(query) < end_row_ && column < a_.head_dim;
      const float* from = static_cast<const float*>(a_.q);
      queries_[query * stride_ + place_of(column)] =
          is_there ? from[row_of(query) * a_.q_stride + static_cast<int64_t>(head) * a_.head_dim + column] : 0.0f;
    }
    for (int query = thread_index(); query < kRowsQueries; query += kRowsThreads) {
      shared_.maxima[query] = head_of(query) < 0 ? 0.0f : first_maximum<F32Rows>(a_, head_of(query));
      shared_.sums[query] = first_sum(a_);
    }
  }

  /// Whether a row reaches a tile.
  LOCKSTEP_DEVICE bool needs(int row, int tile) const {
    const SeenBy seen = seen_by(a_, row);
    const int first = tile * kTileTokens;
    return first <= seen.position && (first + kTileTokens > seen.first || first < a_.pinned);
  }

  /// Rows [begin, end) of one slot, tile after tile.
  LOCKSTEP_DEVICE void attend_slot(int begin, int end) {
    float last = -1.0f;
    for (int row = begin + lane_; row < end; row += kWarpLanes)
      last = larger(last, static_cast<float>(a_.position[row]));
    const int last_position = static_cast<int>(warp_maximum(last));  // of at most 2²⁴
    for (int tile = 0; tile <= last_position / kTileTokens; ++tile) {
      float is_needed = 0.0f;
      for (int row = begin + lane_; row < end; row += kWarpLanes) is_needed = needs(row, tile) ? 1.0f : is_needed;
      if (warp_maximum(is_needed) == 0.0f) continue;  // the same on all threads
      const int tokens = last_position - tile * kTileTokens + 1;
      load_tile<true>(a_.keys, a_.slot[begin], tile, tokens);
      const uint32_t active = active_queries(begin, end, tile);
      if (active != 0) {
        score(active, tile);
        mark_seen(active, tile);
        sync_warp();
        weigh(active);
      }
      load_tile<false>(a_.values, a_.slot[begin], tile, tokens);
      if (active != 0) add_values(active);
    }
  }

  /// Which of the warp's queries have rows in [begin, end) that reach the tile, as bits.
  LOCKSTEP_DEVICE uint32_t active_queries(int begin, int end, int tile) const {
    uint32_t active = 0;
    for (int own = 0; own < kOwn; ++own) {
      const int row = row_of(first_own_ + own);
      const bool is_active = head_of(first_own_ + own) >= 0 && row >= begin && row < end && needs(row, tile);
      active |= is_active ? 1u << own : 0u;
    }
    return active;
  }

  /// The first `tokens` rows of a tile of keys or values; zeros behind them.
  template <bool kIsKeys>
  LOCKSTEP_DEVICE void load_tile(const void* cache, int slot, int tile, int tokens) {
    sync_block();  // all threads have read the last one
    const int64_t at = tile_at(a_, slot, tile, a_.head_map[heads_[0]]);
    if constexpr (kIsCoded) {
      decode_tile(
          coded_tile(a_.tiles, static_cast<const unsigned char*>(cache) + at, a_.head_dim), 0, a_.head_dim, columns_,
          [&](int token) { return token < tokens; },
          [&](int token, int column, float value) {
            tile_[token * stride_ + (kIsKeys ? place_of(column) : column)] = value;
          });
    } else {
      copy_tile<kIsKeys>(static_cast<const float*>(cache) + at, tokens);
    }
    sync_block();
  }

  template <bool kIsKeys>
  LOCKSTEP_DEVICE void copy_tile(const float* from, int tokens) {
    const int chunks = columns_ / kWords;
    LOCKSTEP_NO_UNROLL
    for (int i = thread_index(); i < kTileTokens * chunks; i += kRowsThreads) {
      const int token = i / chunks;
      const int column = i % chunks * kWords;
      Words words{};
      if (token < tokens && column < a_.head_dim) {
        words = *reinterpret_cast<const Words*>(from + token * a_.head_dim + column);
      }
      float* to = tile_ + token * stride_;
      LOCKSTEP_UNROLL
      for (int k = 0; k < kWords; k += 2) {
        const Two two{float_of_bits(words.word[k]), float_of_bits(words.word[k + 1])};
        *reinterpret_cast<Two*>(to + (kIsKeys ? place_of(column + k) : column + k)) = two;
      }
    }
  }

  /// The scores of the warp's queries: a lane has two of them and every eighth key.
  LOCKSTEP_DEVICE void score(uint32_t active, int tile) {
    constexpr int kKeysApart = kWarpLanes / (kOwn / 2);
    const int own = lane_ / kKeysApart * 2;
    LOCKSTEP_NO_UNROLL
    for (int key = lane_ % kKeysApart; key < kTileTokens; key += 2 * kKeysApart) {
      const float* query = queries_ + (first_own_ + own) * stride_;
      const float* keys = tile_ + key * stride_;
      const Pairs products = multiply_pairs({{query, query + stride_}, {keys, keys + kKeysApart * stride_}, columns_});
      LOCKSTEP_UNROLL
      for (int i = 0; i < 2; ++i) {
        if ((active >> (own + i) & 1u) == 0) continue;
        const SeenBy seen = seen_by(a_, row_of(first_own_ + own + i));
        LOCKSTEP_UNROLL
        for (int k = 0; k < 2; ++k) {
          const int token = key + k * kKeysApart;
          const int position = tile * kTileTokens + token;
          shared_.scores[token][first_own_ + own + i] =
              is_seen(a_, seen, position)
                  ? score_of<F32Rows>(a_, seen, head_of(first_own_ + own + i), position, products.of[i][k])
                  : -infinity();
        }
      }
    }
  }

  /// Notes which of the warp's queries see each token.
  LOCKSTEP_DEVICE void mark_seen(uint32_t active, int tile) {
    LOCKSTEP_NO_UNROLL
    for (int token = lane_; token < kTileTokens; token += kWarpLanes) {
      uint32_t sees = 0;
      LOCKSTEP_NO_UNROLL
      for (int own = 0; own < kOwn; ++own) {
        if ((active >> own & 1u) == 0) continue;
        sees |= is_seen(a_, seen_by(a_, row_of(first_own_ + own)), tile * kTileTokens + token) ? 1u << own : 0u;
      }
      shared_.sees[token][first_own_ / kOwn] = static_cast<uint8_t>(sees);
    }
  }

  /// The softmax of each of the warp's queries over the tile, and how it joins those before.
  LOCKSTEP_DEVICE void weigh(uint32_t active) {
    LOCKSTEP_NO_UNROLL
    for (int own = 0; own < kOwn; ++own) {
      if ((active >> own & 1u) == 0) continue;
      const int query = first_own_ + own;
      float& first = shared_.scores[lane_][query];
      float& second = shared_.scores[lane_ + kWarpLanes][query];
      const float maximum = warp_maximum(larger(first, second));
      const float origin = origin_of(maximum);
      first = exp_of(plus(first, -origin));
      second = exp_of(plus(second, -origin));
      const float sum = warp_sum(plus(first, second));
      if (lane_ != 0) continue;
      const FoldFactors factors = fold_factors(shared_.maxima[query], maximum);
      shared_.of_all[query] = factors.of_all;
      shared_.of_tile[query] = factors.of_tile;
      shared_.sums[query] = folded_sum(shared_.sums[query], sum, factors);
      shared_.maxima[query] = larger(shared_.maxima[query], maximum);
    }
  }

  /// The weighted values of the warp's queries at four columns of each lane, folded into those of the tiles before.
  LOCKSTEP_DEVICE void add_values(uint32_t active) {
    const int column = lane_ * kWords;
    if (column >= a_.value_columns) return;
    constexpr uint32_t kAll = (1u << kOwn) - 1u;
    float of_tile[kOwn][kWords] = {};
    LOCKSTEP_NO_UNROLL
    for (int token = 0; token < kTileTokens; ++token) {
      const Four value = *reinterpret_cast<const Four*>(tile_ + token * stride_ + column);
      const Four* weights = reinterpret_cast<const Four*>(&shared_.scores[token][first_own_]);
      const uint32_t sees = shared_.sees[token][first_own_ / kOwn];
      if (sees == kAll) {
        add_token<true>(weights, value, sees, of_tile);
      } else {
        add_token<false>(weights, value, sees, of_tile);
      }
    }
    LOCKSTEP_UNROLL
    for (int own = 0; own < kOwn; ++own) {
      if ((active >> own & 1u) == 0) continue;
      const FoldFactors factors{shared_.of_all[first_own_ + own], shared_.of_tile[first_own_ + own]};
      LOCKSTEP_UNROLL
      for (int k = 0; k < kWords; ++k) values_[own][k] = folded_value(values_[own][k], of_tile[own][k], factors);
    }
  }

  /// Adds a token's values for the queries that see it.
  template <bool kIsAll>
  LOCKSTEP_DEVICE static void add_token(const Four* weights, const Four& value, uint32_t sees,
                                        float (&of_tile)[kOwn][kWords]) {
    LOCKSTEP_UNROLL
    for (int four = 0; four < kOwn / kWords; ++four) {
      const Four weight = weights[four];
      LOCKSTEP_UNROLL
      for (int i = 0; i < kWords; ++i) {
        const int own = four * kWords + i;
        if (!kIsAll && (sees >> own & 1u) == 0) continue;
        LOCKSTEP_UNROLL
        for (int k = 0; k < kWords; ++k) of_tile[own][k] = madd(weight.at[i], value.at[k], of_tile[own][k]);
      }
    }
  }

  /// The results; zeros of rows without a slot.
  LOCKSTEP_DEVICE void write() {
    sync_warp();  // the sums
    const int column = lane_ * kWords;
    if (column >= a_.value_columns) return;
    LOCKSTEP_UNROLL
    for (int own = 0; own < kOwn; ++own) {
      const int row = row_of(first_own_ + own);
      const int head = head_of(first_own_ + own);
      if (head < 0 || row >= end_row_) continue;
      float* y = static_cast<float*>(a_.y) + row * a_.y_stride + static_cast<int64_t>(head) * a_.value_columns + column;
      const bool is_padding = a_.slot[row] < 0;
      LOCKSTEP_UNROLL
      for (int k = 0; k < kWords; ++k) {
        if (column + k >= a_.value_columns) break;
        y[k] = is_padding ? 0.0f : divide(values_[own][k], shared_.sums[first_own_ + own]);
      }
    }
  }

  const AttendRowsParameters& p_;
  const AttendParameters& a_;
  RowsShared& shared_;
  const int columns_;  // with padding
  const int stride_;   // rows lie in unlike banks
  float* const queries_;
  float* const tile_;
  const int lane_;
  const int first_own_;
  const int32_t* const heads_;
  const int first_row_;
  int end_row_;
  float values_[kOwn][kWords] = {};
};

template <bool kIsCoded>
LOCKSTEP_DEVICE void attend_rows(const AttendRowsParameters& p) {
  follow_previous();
  const int columns = (p.attend.head_dim + kRowsPadding - 1) / kRowsPadding * kRowsPadding;
  constexpr int kOfColumn = (kRowsQueries + kTileTokens) * static_cast<int>(sizeof(float));
  RowsShared& shared = shared_memory_of<RowsShared>(static_cast<int>(sizeof(RowsShared)) + (columns + 4) * kOfColumn);
  Block<kIsCoded>(p, shared).run();
}

}  // namespace

static_assert(sizeof(RowsShared) == kRowsFixedBytes);
LOCKSTEP_KERNEL(attend_rows_f32, AttendRowsParameters, kRowsThreads) { attend_rows<false>(p); }
LOCKSTEP_KERNEL(attend_rows_codes_f32, AttendRowsParameters, kRowsThreads) { attend_rows<true>(p); }

}  // namespace lockstep::cuda
