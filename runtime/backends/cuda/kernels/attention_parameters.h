// Parameters of the kernels of rotations, caches and attention (parameters.h).
#pragma once

#include <cstdint>

#include "runtime/backends/cuda/kernels/product_parameters.h"
#include "runtime/backends/cuda/kernels/row_parameters.h"

namespace lockstep::cuda {

/// turn_table: cosines and sines of position · frequency, times `scale`. A thread is an element.
struct TurnTableParameters {
  const int32_t* position;        // [rows]
  const float* frequencies;       // [half]
  const float* long_frequencies;  // [half], of rows whose slot is_long; may be null
  const int32_t* is_long;         // [slots]
  const int32_t* slot;            // [rows]
  float* cosines;                 // [rows, half]
  float* sines;
  RowCount rows;
  int32_t slots;
  int32_t half;
  float scale;
};
constexpr int kTurnThreads = 128;

/// How heads turn: the first 2 · half columns of each.
struct Turn {
  const float* cosines;  // [rows, half]; null: they do not
  const float* sines;
  int32_t half;
  int32_t neighbours;  // pairs are (2i, 2i + 1), not (i, i + half)
};

/// turn: a block is a row.
struct TurnParameters {
  const void* x;  // dt [rows, heads · head_dim]
  void* y;
  int64_t x_stride;
  int64_t y_stride;
  Turn turn;
  RowCount rows;
  int32_t heads;
  int32_t head_dim;
};

/// What the elements of a cache are: the model's, or codes of 8 bits (runtime/core/cache_rows.h).
enum CacheCodes : int32_t { kNoCodes, kInt8Codes, kE4M3Codes };

/// Where a cache keeps its tiles of 64 tokens, each [heads][64][head_dim]: tile n of a slot is at slot · slot_stride +
/// n · tile_stride. Beyond the fixed tiles of a ring, tile n is at fixed + (n − fixed) mod turning. In codes the 64
/// rows of a head are followed by their 64 scales, f32.
struct CacheTiles {
  int64_t slot_stride;
  int64_t tile_stride;
  int32_t fixed_tiles;
  int32_t turning_tiles;   // 0: no ring
  int32_t codes;           // CacheCodes
  int32_t scale_elements;  // of a row: 4 in codes, else 0
};
constexpr int kTileTokens = 64;

/// append_2, append_4; append_codes, which quantises: a block is a row.
struct AppendParameters {
  const void* x;        // [rows, heads · head_dim]
  void* cache;          // of slot 0, tile 0
  const int32_t* slot;  // [rows]; −1: nothing is written
  const int32_t* position;
  int64_t x_stride;
  CacheTiles tiles;
  RowCount rows;
  int32_t heads;
  int32_t head_dim;
};
constexpr int kAppendThreads = 128;

constexpr int kMostHeadDim = 576;  // of latent attention: a latent of 512 and a rotated key of 64
constexpr int kMostValueColumns = 512;

/// Columns behind the others of each head, which have a turn of their own.
struct HeadsRest {
  const void* x;  // dt [rows, heads · columns]
  int64_t x_stride;
  Turn turn;
  int64_t columns;  // 0: none
};

/// Queries, keys or values of a row: normed, turned, and written to `y` or into a cache.
struct HeadsPart {
  const void* x;  // dt [rows, heads · (head_dim − rest.columns)]
  void* y;        // dt [rows, heads · head_dim]
  void* cache;    // of slot 0, tile 0; null: y
  int64_t x_stride;
  int64_t y_stride;
  Norm norm;
  Turn turn;
  HeadsRest rest;
  int32_t heads;
};
constexpr int kMostHeadsParts = 4;  // q, q for pinned positions, k, v

/// prepare_heads; prepare_heads_joined, where parts have a rest: a block is a head of a row, of as many threads as a
/// head has columns, at most kHeadsThreads.
struct HeadsParameters {
  const int32_t* slot;      // [rows]; −1: nothing is written into caches
  const int32_t* position;  // [rows]
  CacheTiles tiles;         // of keys and of values
  RowCount rows;
  int32_t heads_of_row;  // of all parts
  int32_t head_dim;
  HeadsPart parts[kMostHeadsParts];  // one after the other in a row's blocks; last: see clear_padding
};
constexpr int kHeadsThreads = 256;  // as a norm alone has

/// attend, in f32: a block is a query head of a row. Kernels of caches in codes, with _codes in their name, decode a
/// tile as they load it, and round it to dt. Values that are the first columns of their keys are `keys`, and
/// kernels that copy a tile copy it once.
struct AttendParameters {
  const void* q;            // dt [rows, heads · head_dim]
  const void* pinned_q;     // the same for keys of pinned positions; may be null
  const void* keys;         // dt, of slot 0, tile 0
  const void* values;       // in rows of head_dim, of which value_columns are read
  const int32_t* slot;      // [rows]; −1: a padding row, whose result is 0
  const int32_t* position;  // [rows]
  const int32_t* head_map;  // [heads]: the head of the cache
  const void* slopes;       // dt or f32 [heads]; may be null
  const void* sinks;        // dt or f32 [heads]; may be null
  void* y;                  // dt [rows, heads · value_columns]
  int64_t q_stride;
  int64_t pinned_q_stride;
  int64_t y_stride;
  CacheTiles tiles;  // of keys and of values
  RowCount rows;
  int32_t heads;
  int32_t head_dim;
  int32_t value_columns;
  int32_t window;      // 0: everything is seen
  int32_t is_chunked;  // only what is since the last multiple of the window
  int32_t pinned;
  float scale;
  float soft_cap;             // 0: none
  int32_t is_float_per_head;  // slopes or sinks are f32
};
constexpr int kAttendThreads = 128;

/// What a query head of a row takes from its tiles, one beside the other: [rows, heads, tiles].
struct TileSumsOfRows {
  float* maxima;
  float* sums;
  float* values;  // [rows, heads, tiles, value_columns]
  int32_t tiles;  // that a row may need
};

/// attend_tiles: a unit is a tile that a row needs, for a group: all query heads of one head of the cache. Blocks walk
/// the units; the last block of a row and group folds their tiles. attend_fold: a block is up to kAttendThreads columns
/// of a query head of a row, and folds. Together they give the bits of attend_rows, and in f32 of `attend`.
struct AttendTilesParameters {
  AttendParameters attend;
  TileSumsOfRows of_rows;
  const int32_t* heads;        // [attend.heads]: query heads, those of a group side by side
  const int32_t* first_heads;  // [groups + 1]: where those of a group begin
  uint32_t* arrivals;          // [rows, groups]: tiles that are done; 0 between launches. Null: attend_fold folds
  int32_t groups;
  int32_t shared_bytes;
};
constexpr int kHeadsAtOnce = 4;
constexpr int kFoldTiles = 32;
constexpr int64_t fold_parts(int64_t value_columns) { return (value_columns + kAttendThreads - 1) / kAttendThreads; }
constexpr int kAttendFoldSharedBytes = kHeadsAtOnce * (kFoldTiles * 16 + (kFoldTiles + 1) * 4);
/// What a block of attend_tiles in f32 needs besides queries, keys and values of a tile.
constexpr int kAttendTilesFixedBytes = (2 * kTileTokens * kHeadsAtOnce + 4) * 4 + kAttendFoldSharedBytes;
/// `tiles`: 2 with values of their own, else 1.
constexpr int64_t attend_tiles_bytes(int64_t head_dim, int64_t tiles = 2) {
  return kAttendTilesFixedBytes + (2 * kHeadsAtOnce + tiles * kTileTokens) * head_dim * 4;
}

/// 16-bit rows of queries, keys and values in shared memory: whole steps of tensor cores, and 16 bytes behind them, so
/// that 8 rows lie in unlike banks.
constexpr int kPadding16 = 8;
constexpr int64_t stride_16(int64_t columns) {
  return (columns + kStepColumns - 1) / kStepColumns * kStepColumns + kPadding16;
}
/// The same of attend_tiles in 16 bits. `query_sets`: 2 with pinned_q.
constexpr int kAttendTiles16Heads = 16;  // at once
constexpr int kAttendTiles16FixedBytes =
    kAttendTiles16Heads * ((kTileTokens + kPadding16) * 2 + kAttendThreads / 32 * 4) + 16 + kAttendFoldSharedBytes;
constexpr int64_t attend_tiles_16_bytes(int64_t head_dim, int64_t query_sets, int64_t tiles = 2) {
  return kAttendTiles16FixedBytes + (query_sets * kAttendTiles16Heads + tiles * kTileTokens) * stride_16(head_dim) * 2;
}

/// attend_rows: a block is 64 queries, in 16 bits 16 for each warp: rows_of_block rows of a chunk of query heads;
/// chunks of a row are side by side, and of a chunk the parts of its columns: kRowsHeadDim each. In f32 there is one
/// part, heads are a multiple of 16 bytes, and there is no pinned_q.
struct AttendRowsParameters {
  AttendParameters attend;
  const int32_t* heads;  // [chunks, heads_at_once]: query heads of one head of the cache; −1: none
  int32_t chunks;
  int32_t heads_at_once;
  int32_t rows_of_block;
  int32_t parts;
  int32_t shared_bytes;
};
constexpr int kRowsThreads = 256;
constexpr int kRows16Threads = 256;  // at most
constexpr int kRowsQueries = 64;
constexpr int kRowsHeads = 4;  // of a chunk, at most
constexpr int kRows16Heads = 16;
constexpr int kRowsHeadDim = 128;
constexpr int kRowsPadding = 64;  // columns are padded to a multiple
constexpr int kRowsFixedBytes =
    (kTileTokens * (kRowsQueries + 4) + 4 * kRowsQueries) * static_cast<int>(sizeof(float)) +
    kTileTokens * kRowsQueries / 8;
constexpr int64_t attend_rows_bytes(int64_t head_dim) {
  const int64_t columns = (head_dim + kRowsPadding - 1) / kRowsPadding * kRowsPadding;
  return kRowsFixedBytes + (columns + 4) * (kRowsQueries + kTileTokens) * static_cast<int64_t>(sizeof(float));
}
/// The same in 16 bits: the queries of so many threads, a tile of keys, and the part's columns of its values.
constexpr int rows_16_queries(int threads) { return threads / 2; }
constexpr int64_t attend_rows_16_bytes(int threads, int64_t head_dim, int64_t query_sets) {
  const int64_t of_part = head_dim < kRowsHeadDim ? head_dim : kRowsHeadDim;
  return ((query_sets * rows_16_queries(threads) + kTileTokens) * stride_16(head_dim) +
          kTileTokens * stride_16(of_part)) *
         2;
}

/// attend_pairs: as attend_rows in 16 bits, of keys that are also values, without pinned_q. Two warps have 16 queries
/// together: half of a tile's keys each, then half of the result's columns. A block has 64 queries, two tiles and the
/// weights of one; there is one part.
constexpr int64_t attend_pairs_bytes(int64_t head_dim) {
  return ((kRowsQueries + 2 * kTileTokens) * stride_16(head_dim) + kRowsQueries * kTileTokens) * 2;
}

}  // namespace lockstep::cuda
