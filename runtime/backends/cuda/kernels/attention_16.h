// Attention of 16-bit elements on tensor cores: the formulas that few rows (attend_tiles_16.cu) and many
// (attend_rows_16.cu) share.
//
//   16 queries × keys, along the columns ─► scores ─► weights: e^(score − the tile's largest), rounded to 16 bits ─┐
//   weights × values, along the tokens   ─► values of the tile, in f32        ◄───────────────────────────────────┤
//   weights × ones                       ─► their sum: the values' and the sum's weights are the same numbers  ◄──┘
//
// A query is a row of a tensor core's tile, and a row depends on no other row. Each product is one chain from zero, in
// steps of 16, ascending; weights are relative to the tile alone. So a query has the same bits alone and among others,
// in any row. Lane 4·g + t has rows g and g + 8 (mma_16x8x16).
#pragma once

#include <type_traits>

#include "runtime/backends/cuda/kernels/attention.h"

namespace lockstep::cuda {

constexpr int kQueriesOfTile = 16;
constexpr int kTokenSteps = kTileTokens / kStepColumns;
constexpr int kChunk16 = 8;  // elements of a copy of 16 bytes

/// 16 queries by 16 keys or columns: `of[h][2·r + i]` is the lane's row r, at 8·h + 2·t + i.
struct Square {
  float of[2][4];
};

/// The row of the lane that an element belongs to: 0 or 1.
LOCKSTEP_DEVICE int row_of_element(int element) { return element / 2; }
/// The place of an element among the square's 16 keys or columns.
LOCKSTEP_DEVICE int place_of_element(int half, int element) { return half * 8 + thread_index() % 4 * 2 + element % 2; }
/// The tile's query that is the lane's row.
LOCKSTEP_DEVICE int query_of_lane(int row) { return row * 8 + thread_index() % kWarpLanes / 4; }

/// A thread's share of copying rows of `columns` elements to shared memory, padded to whole steps: 16 bytes of every so
/// many.
class RowCopies {
 public:
  LOCKSTEP_DEVICE RowCopies(int columns, bool is_aligned)
      : columns_(columns),
        first_row_(thread_index() / chunks()),
        rows_on_(thread_count() / chunks()),
        is_aligned_(is_aligned) {}

  /// Starts the copies of `rows` rows; `row_at(row)` is null for zeros. `any` is aligned memory.
  template <typename RowAt>
  LOCKSTEP_DEVICE void start(uint16_t* to, int rows, const void* any, RowAt row_at) const {
    const int chunks_on = thread_count() - rows_on_ * chunks();
    int row = first_row_;
    int chunk = first_chunk();
    LOCKSTEP_NO_UNROLL
    while (row < rows) {
      const uint16_t* from = row_at(row);
      const int left = from == nullptr ? 0 : columns_ - chunk * kChunk16;
      copy(to + row * stride() + chunk * kChunk16, from + (left > 0 ? chunk * kChunk16 : 0), left, any);
      row += rows_on_;
      chunk += chunks_on;
      if (chunk >= chunks()) {
        chunk -= chunks();
        ++row;
      }
    }
  }

  /// The same of a tile, whose rows lie `apart` from each other; zeros where `is_there(row)` is false.
  template <typename IsThere>
  LOCKSTEP_DEVICE void start_tile(uint16_t* to, const uint16_t* from, int apart, IsThere is_there) const {
    if (rows_on_ * chunks() != thread_count() || !is_aligned_ || columns_ % kStepColumns != 0) {
      start(to, kTileTokens, from, [&](int row) { return is_there(row) ? from + row * apart : nullptr; });
      return;
    }
    constexpr int kLoads = 4;
    const uint16_t* source = from + first_row_ * apart + first_chunk() * kChunk16;
    to += first_row_ * stride() + first_chunk() * kChunk16;
    LOCKSTEP_NO_UNROLL
    for (int first = first_row_; first < kTileTokens; first += kLoads * rows_on_) {
      LOCKSTEP_UNROLL
      for (int load = 0; load < kLoads; ++load) {
        const int row = first + load * rows_on_;
        if (row < kTileTokens) copy_async_16(to, is_there(row) ? source : from, is_there(row) ? 16 : 0);
        source += rows_on_ * apart;
        to += rows_on_ * stride();
      }
    }
  }

 private:
  /// Copies of a row.
  LOCKSTEP_DEVICE int chunks() const {
    return (columns_ + kStepColumns - 1) / kStepColumns * (kStepColumns / kChunk16);
  }
  LOCKSTEP_DEVICE int stride() const { return chunks() * kChunk16 + kPadding16; }
  LOCKSTEP_DEVICE int first_chunk() const { return thread_index() - first_row_ * chunks(); }

  LOCKSTEP_DEVICE void copy(uint16_t* to, const uint16_t* from, int left, const void* any) const {
    if (is_aligned_) {
      copy_async_16(to, left > 0 ? from : any, left > 0 ? 16 : 0);
      return;
    }
    LOCKSTEP_NO_UNROLL
    for (int i = 0; i < kChunk16; ++i) to[i] = i < left ? from[i] : static_cast<uint16_t>(0);
  }

  int columns_;
  int first_row_;  // of the thread
  int rows_on_;    // to its next
  bool is_aligned_;
};

/// Tiles that some row of a slot needs.
struct Span {
  int pinned;  // tiles
  int first;   // behind those
  int last;

  LOCKSTEP_DEVICE int begin() const { return pinned > 0 ? 0 : first; }
  LOCKSTEP_DEVICE int after(int tile) const { return tile + 1 < pinned || tile >= first ? tile + 1 : first; }
};

/// Whether rows of queries begin at multiples of 16 bytes.
LOCKSTEP_DEVICE bool are_aligned(const void* queries, int64_t stride, int head_dim) {
  return reinterpret_cast<uintptr_t>(queries) % 16 == 0 && stride % kChunk16 == 0 && head_dim % kChunk16 == 0;
}

LOCKSTEP_DEVICE void clear(Square& square) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < 8; ++i) square.of[i / 4][i % 4] = 0.0f;
}

/// square += a · b, of a step. `b` are four matrices: two of the first 8 columns, two of the others.
template <typename Rows>
LOCKSTEP_DEVICE void add_step(Square& square, const uint32_t (&a)[4], const uint32_t (&b)[4]) {
  const uint32_t first[2] = {b[0], b[1]};
  const uint32_t second[2] = {b[2], b[3]};
  multiply<Rows>(square.of[0], a, first);
  multiply<Rows>(square.of[1], a, second);
}

/// The products of 16 queries with 16 · kSquares keys. Both lie in rows of `stride` elements.
template <typename Rows, int kSquares>
LOCKSTEP_DEVICE void multiply_keys(const uint16_t* queries, const uint16_t* keys, int stride, int steps,
                                   Square (&scores)[kSquares]) {
  const int lane = thread_index() % kWarpLanes;
  queries += lane % 16 * stride + lane / 16 * kChunk16;
  keys += (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * kChunk16;
  LOCKSTEP_UNROLL
  for (Square& square : scores) clear(square);
  LOCKSTEP_UNROLL_BY(2)
  for (int step = 0; step < steps; ++step) {
    uint32_t a[4];
    load_matrices(a, queries + step * kStepColumns);
    LOCKSTEP_UNROLL
    for (int square = 0; square < kSquares; ++square) {
      uint32_t b[4];
      load_matrices(b, keys + square * 16 * stride + step * kStepColumns);
      add_step<Rows>(scores[square], a, b);
    }
  }
}

/// Takes the products of pinned positions, of 16 keys from `position` on, from `pinned`.
LOCKSTEP_DEVICE void take_pinned(const AttendParameters& p, int position, const Square& pinned, Square& scores) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < 8; ++i) {
    const bool is_pinned = position + place_of_element(i / 4, i % 4) < p.pinned;
    scores.of[i / 4][i % 4] = is_pinned ? pinned.of[i / 4][i % 4] : scores.of[i / 4][i % 4];
  }
}

/// A row of the lane.
struct LaneQuery {
  SeenBy seen;
  int head;
  bool is_active;  // the others see nothing
};

/// Makes scores of products with the keys from `position` on; −∞ where nothing is seen. `sees_all`: both queries do.
template <typename Rows, int kSquares>
LOCKSTEP_DEVICE void finish_scores(const AttendParameters& p, const LaneQuery (&queries)[2], int position,
                                   bool sees_all, Square (&scores)[kSquares]) {
  const auto for_all = [&](auto work) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < 8 * kSquares; ++i) {
      float& score = scores[i / 8].of[i / 4 % 2][i % 4];
      score = work(score, queries[row_of_element(i % 4)], row_of_element(i % 4),
                   position + i / 8 * 16 + place_of_element(i / 4 % 2, i % 4));
    }
  };
  for_all([&](float score, const LaneQuery&, int, int) { return times(score, p.scale); });
  if (p.soft_cap != 0.0f) for_all([&](float score, const LaneQuery&, int, int) { return capped(p, score); });
  if (p.slopes != nullptr) {
    float slopes[2];
    LOCKSTEP_UNROLL
    for (int row = 0; row < 2; ++row) {
      slopes[row] = queries[row].is_active ? number_of_head<Rows>(p, p.slopes, queries[row].head) : 0.0f;
    }
    for_all([&](float score, const LaneQuery& query, int row, int at) {
      return plus(score, times(slopes[row], static_cast<float>(at - query.seen.position)));
    });
  }
  if (sees_all) return;
  for_all([&](float score, const LaneQuery& query, int, int at) {
    return query.is_active && is_seen(p, query.seen, at) ? score : -infinity();
  });
}

/// The largest of the lane's own scores of its two rows.
template <int kSquares>
LOCKSTEP_DEVICE void own_maxima(const Square (&scores)[kSquares], float (&maxima)[2]) {
  LOCKSTEP_UNROLL
  for (int row = 0; row < 2; ++row) {
    maxima[row] = -infinity();
    LOCKSTEP_UNROLL
    for (int i = 0; i < 4 * kSquares; ++i) {
      maxima[row] = larger_or_nan(maxima[row], scores[i / 4].of[i / 2 % 2][row * 2 + i % 2]);
    }
  }
}

/// The same of the warp's keys: the four lanes of a row meet.
LOCKSTEP_DEVICE void meet_lanes(float (&maxima)[2]) {
  LOCKSTEP_UNROLL
  for (int row = 0; row < 2; ++row) {
    maxima[row] = larger_or_nan(maxima[row], shuffle_xor(maxima[row], 1));
    maxima[row] = larger_or_nan(maxima[row], shuffle_xor(maxima[row], 2));
  }
}

/// e^x of an x that is not above 0 by more than a rounding, with a relative error below 4e-6; 0 where it is less than
/// 2^−126, a NaN of a NaN.
LOCKSTEP_DEVICE float weight_of(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 · 2²³: whole numbers end up in the low bits
  x = larger_or_nan(x, -88.0f);          // whose power of two, 2^−127, becomes 0
  const float shifted = madd(x, 1.44269504f, kMagic);
  const float n = plus(shifted, -kMagic);
  const float r = madd(n, -0.693147181f, x);
  float p = madd(1.0f / 120.0f, r, 1.0f / 24.0f);
  p = madd(p, r, 1.0f / 6.0f);
  p = madd(p, r, 0.5f);
  p = madd(p, r, 1.0f);
  p = madd(p, r, 1.0f);
  return times(p, float_of_bits((bits_of(shifted) << 23) + 0x3f800000u));
}

/// The weights of 16 keys, as the first operand of a step.
template <typename Rows>
LOCKSTEP_DEVICE void weigh(const Square& scores, const float (&maxima)[2], uint32_t (&weights)[4]) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int row = i % 2;
    const float origin = origin_of(maxima[row]);
    const float first = weight_of(plus(scores.of[i / 2][2 * row], -origin));
    const float second = weight_of(plus(scores.of[i / 2][2 * row + 1], -origin));
    weights[i] = Rows::pair(first, second);
  }
}

/// The sums of a tile's weights, of the lane's two rows.
template <typename Rows>
LOCKSTEP_DEVICE void sum_weights(const uint32_t (&weights)[kTokenSteps][4], float (&sums)[2]) {
  const uint32_t ones[2] = {Rows::kOnes, Rows::kOnes};
  float all[4] = {};
  LOCKSTEP_UNROLL
  for (int step = 0; step < kTokenSteps; ++step) multiply<Rows>(all, weights[step], ones);
  sums[0] = all[0];
  sums[1] = all[2];
}

struct AllTokens {
  LOCKSTEP_DEVICE bool operator()(int) const { return true; }
};

/// The weighted values of `squares` times 16 columns, at most kSquares. Values of tokens that `sees` leaves out are
/// zeros.
template <typename Rows, int kSquares, typename Sees = AllTokens>
LOCKSTEP_DEVICE void multiply_values(const uint32_t (&weights)[kTokenSteps][4], const uint16_t* values, int stride,
                                     int squares, Square (&sums)[kSquares], Sees sees = {}) {
  const int lane = thread_index() % kWarpLanes;
  values += lane % 16 * stride + lane / 16 * kChunk16;
  LOCKSTEP_UNROLL
  for (Square& square : sums) clear(square);
  LOCKSTEP_UNROLL
  for (int step = 0; step < kTokenSteps; ++step) {
    LOCKSTEP_UNROLL
    for (int square = 0; square < kSquares; ++square) {
      if (square >= squares) break;
      uint32_t b[4];
      load_matrices_turned(b, values + step * kStepColumns * stride + square * 16);
      if constexpr (!std::is_same_v<Sees, AllTokens>) {
        LOCKSTEP_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int token = step * kStepColumns + i % 2 * 8 + lane % 4 * 2;
          b[i] &= (sees(token) ? 0xffffu : 0u) | (sees(token + 1) ? 0xffff0000u : 0u);
        }
      }
      add_step<Rows>(sums[square], weights[step], b);
    }
  }
}

/// Whether a value of a tile is infinite or a NaN, which a weight of 0 does not take out. The same on all lanes.
template <typename Rows>
LOCKSTEP_DEVICE bool holds_infinity(const uint16_t* values, int stride, int squares) {
  const uint32_t zeros[4] = {};
  const int lane = thread_index() % kWarpLanes;
  values += lane % 16 * stride + lane / 16 * kChunk16;
  Square sum;  // 0 · x is 0 of all others
  clear(sum);
  LOCKSTEP_NO_UNROLL
  for (int square = 0; square < squares; ++square) {
    LOCKSTEP_UNROLL
    for (int step = 0; step < kTokenSteps; ++step) {
      uint32_t b[4];
      load_matrices_turned(b, values + step * kStepColumns * stride + square * 16);
      add_step<Rows>(sum, zeros, b);
    }
  }
  bool holds = false;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 8; ++i) holds = holds || sum.of[i / 4][i % 4] != 0.0f;
  return any_of_warp(holds);
}

/// The weights of a tile, and how it joins those before.
struct TileWeights {
  uint32_t at[kTokenSteps][4];
  FoldFactors factors[2];
  bool folds[2];  // the lane's rows that need the tile
  bool sees_all;  // all of the warp's queries see all of it
};

}  // namespace lockstep::cuda
