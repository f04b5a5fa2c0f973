// The parameters of the kernels, as host and device see them. Addresses are of device memory. Sizes and strides are
// elements, unless they say otherwise.
//
// A kernel whose name ends with a type has a form for each: rms_norm is rms_norm_f32, rms_norm_bf16, rms_norm_f16. `dt`
// is that type. Names that end with 2 and 4 move elements of so many bytes.
#pragma once

#include <cstdint>

namespace lockstep::cuda {

/// The rows of a launch, of which a step computes the first `in_use`.
struct RowCount {
  const int32_t* in_use;  // null: all
  int32_t rows;
};

// Rows

/// embed: y = table[ids − first_row]. A block is a row.
struct EmbedParameters {
  const int32_t* ids;  // [rows]
  const void* table;   // dt [table_rows, columns], row by row or packed
  void* y;             // f32 or dt [rows, columns]
  RowCount rows;
  int32_t first_row;
  int32_t table_rows;
  int32_t columns;
  int32_t k_steps;   // of the packed table (packing.h); 0: row by row
  int32_t is_float;  // y is f32
  float nothing;     // of a row outside the table
};
constexpr int kEmbedThreads = 128;

/// take_rows_2, take_rows_4: y[t] = from[index[t] + offset]; zeros outside, and where mask[t] < 0. A block is a row.
struct TakeRowsParameters {
  const int32_t* index;  // [rows]; null: t
  const int32_t* mask;   // [rows]; may be null
  const void* from;
  void* y;
  int64_t from_stride;
  int64_t y_stride;
  RowCount rows;
  int32_t offset;
  int32_t from_rows;
  int32_t columns;
};
constexpr int kTakeRowsThreads = 128;

enum MapKind : int32_t { kMapAdd, kMapScale, kMapSoftCap, kMapActivate, kMapGate };
enum ActivationKind : int32_t { kSilu, kGelu, kGeluTanh, kRelu, kClampedSwiglu };

/// map: y = x + z, x · number, number · tanh(x / number), activation(x), or activation(x) · z. A thread is an element.
struct MapParameters {
  const void* x;  // dt [rows, columns], as z and y
  const void* z;
  void* y;
  int64_t x_stride;
  int64_t z_stride;  // 0: one row for all
  int64_t y_stride;
  RowCount rows;
  int32_t columns;
  int32_t kind;
  int32_t activation;
  float number;
};
constexpr int kMapThreads = 256;

/// The weights of a norm and its formula.
struct Norm {
  const void* weight;  // dt [columns]; null: no norm
  const void* bias;    // dt [columns], of a layer norm; null: a root mean square norm
  float epsilon;
  float offset;        // added to the weight
  int32_t has_offset;  // then x / root is not rounded before it is multiplied
};

/// rms_norm: a block is a group of `columns` of a row.
struct RmsNormParameters {
  const void* x;  // dt [rows, groups · columns]
  void* y;
  int64_t x_stride;
  int64_t y_stride;
  Norm norm;
  RowCount rows;
  int32_t groups;
  int32_t columns;
};
constexpr int kNormThreads = 256;

/// layer_norm: a block is a row.
struct LayerNormParameters {
  const void* x;  // dt [rows, columns]
  void* y;
  int64_t x_stride;
  int64_t y_stride;
  Norm norm;
  RowCount rows;
  int32_t columns;
};

// Positions

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

/// Where a cache keeps its tiles of 64 tokens, each [heads][64][head_dim]: tile n of a slot is at slot · slot_stride +
/// n · tile_stride. Beyond the fixed tiles of a ring, tile n is at fixed + (n − fixed) mod turning.
struct CacheTiles {
  int64_t slot_stride;
  int64_t tile_stride;
  int32_t fixed_tiles;
  int32_t turning_tiles;  // 0: no ring
};
constexpr int kTileTokens = 64;

/// append_2, append_4: a block is a row.
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

constexpr int kMostHeadDim = 512;

/// Queries, keys or values of a row: normed, turned, and written to `y` or into a cache.
struct HeadsPart {
  const void* x;  // dt [rows, heads · head_dim]
  void* y;        // dt [rows, heads · head_dim]
  void* cache;    // of slot 0, tile 0; null: y
  int64_t x_stride;
  int64_t y_stride;
  Norm norm;
  Turn turn;
  int32_t heads;
};
constexpr int kMostHeadsParts = 4;  // q, q for pinned positions, k, v

/// prepare_heads: a block is a head of a row, of as many threads as a head has columns, at most kHeadsThreads.
struct HeadsParameters {
  HeadsPart parts[kMostHeadsParts];  // one after the other in a row's blocks
  const int32_t* slot;               // [rows]; −1: nothing is written into caches
  const int32_t* position;           // [rows]
  CacheTiles tiles;                  // of keys and of values
  RowCount rows;
  int32_t heads_of_row;  // of all parts
  int32_t head_dim;
};
constexpr int kHeadsThreads = 256;  // as a norm alone has

/// attend: a block is a query head of a row.
struct AttendParameters {
  const void* q;         // dt [rows, heads · head_dim]
  const void* pinned_q;  // the same for keys of pinned positions; may be null
  const void* keys;      // dt, of slot 0, tile 0
  const void* values;
  const int32_t* slot;      // [rows]; −1: a padding row, whose result is 0
  const int32_t* position;  // [rows]
  const int32_t* head_map;  // [heads]: the head of the cache
  const void* slopes;       // dt or f32 [heads]; may be null
  const void* sinks;        // dt or f32 [heads]; may be null
  void* y;                  // dt [rows, heads · head_dim]
  int64_t q_stride;
  int64_t pinned_q_stride;
  int64_t y_stride;
  CacheTiles tiles;  // of keys and of values
  RowCount rows;
  int32_t heads;
  int32_t head_dim;
  int32_t window;  // 0: everything is seen
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
  float* values;  // [rows, heads, tiles, head_dim]
  int32_t tiles;  // that a row may need
};

/// attend_tiles: a unit is a tile that a row needs, for a group: all query heads of one head of the cache. Blocks walk
/// the units; the last block of a row and group folds their tiles. attend_fold: a block is a query head of a row, and
/// folds. Together they give the bits of `attend`.
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
constexpr int kAttendFoldSharedBytes = kHeadsAtOnce * (kFoldTiles * 16 + (kFoldTiles + 1) * 4);
/// What a block of attend_tiles needs besides queries, keys and values of a tile.
constexpr int kAttendTilesFixedBytes = (2 * kTileTokens * kHeadsAtOnce + 4) * 4 + kAttendFoldSharedBytes;
constexpr int64_t attend_tiles_bytes(int64_t head_dim, int64_t element_size) {
  return kAttendTilesFixedBytes + 2 * kHeadsAtOnce * head_dim * 4 + 2 * kTileTokens * head_dim * element_size;
}

/// attend_rows: a block is up to 64 queries, rows_of_block rows of a chunk of query heads; chunks of a row are side by
/// side. Heads have at most kRowsHeadDim columns, a multiple of 16 bytes, and there is no pinned_q.
struct AttendRowsParameters {
  AttendParameters attend;
  const int32_t* heads;  // [chunks, heads_at_once]: query heads of one head of the cache; −1: none
  int32_t chunks;
  int32_t heads_at_once;
  int32_t rows_of_block;
};
constexpr int kRowsThreads = 256;
constexpr int kRowsQueries = 64;
constexpr int kRowsHeads = 4;  // of a chunk, at most
constexpr int kRowsHeadDim = 128;
constexpr int kRowsPadding = 64;  // columns are padded to a multiple
constexpr int kRowsFixedBytes =
    (kTileTokens * (kRowsQueries + 4) + 4 * kRowsQueries) * static_cast<int>(sizeof(float)) +
    kTileTokens * kRowsQueries / 8;
constexpr int64_t attend_rows_bytes(int64_t head_dim) {
  const int64_t columns = (head_dim + kRowsPadding - 1) / kRowsPadding * kRowsPadding;
  return kRowsFixedBytes + (columns + 4) * (kRowsQueries + kTileTokens) * static_cast<int64_t>(sizeof(float));
}

// Products

constexpr int kProductThreads = 256;
constexpr int kProductWarps = 8;
constexpr int kTileOutputs = 16;
constexpr int kTileRows = 8;
constexpr int kStepColumns = 16;
/// Each sum over K of a plain product is cut into this many parts of whole steps, by K alone.
constexpr int kPlainParts = 8;
/// The height of the stack of a tree's unfinished sums.
constexpr int kMostLevels = 12;

/// A part of a sum over K that one warp computes, and how it joins the others: after the part, `merges` times the two
/// topmost sums of the stack are added (the older one on the left); the last part of a root writes it.
struct SumPart {
  int32_t first_step;  // of 16 columns; in 8-bit products: group
  int32_t steps;
  int32_t first_column;  // of x
  int32_t end_column;    // columns from here on are zeros
  int32_t merges;
  int32_t root;  // −1: the sum goes on
};

/// product: y = x · wᵀ (+ bias). A block is 16 outputs of all rows. product_tiles, product_wide: a block is 128
/// outputs of 64 or 128 rows; x, its stride and the parts' first columns are multiples of 16 bytes.
struct ProductParameters {
  const void* weights;   // packed (packing.h)
  const void* x;         // dt [rows, columns]
  const void* bias;      // dt [outputs]; may be null
  void* y;               // dt or f32 [roots, rows, outputs]
  const SumPart* parts;  // in order
  int64_t x_stride;
  int64_t y_stride;
  int64_t y_plane;  // between roots
  RowCount rows;
  int32_t outputs;
  int32_t k_steps;  // of a tile of weights
  int32_t part_count;
  int32_t is_float;  // y is f32
  int32_t levels;    // sums that stay open after a part, at most
};
constexpr int kSomeRows = 32;    // more are many
constexpr int kTilesGroups = 8;  // of 8 rows
constexpr int kWideGroups = 16;
constexpr int kTilesStages = 3;

/// An elementwise operation on a product's results: map's, rounded like its.
struct Finish {
  const void* z;     // of y's type; may be null
  int64_t z_stride;  // 0: one row for all
  int32_t kind;      // MapKind
  int32_t activation;
  float number;
};
constexpr int kMostFinishes = 4;

/// How the parts of a sum follow each other.
enum FoldKind : int32_t {
  kFoldAny,
  kFoldChain,   // eight parts, added one after the other
  kFoldEights,  // whole subtrees of eight parts
};

/// product_few: as product, of at most 8 rows, with what leads to them and follows from them. Blocks walk the tiles.
///
///   row `index[t]` of x ──norm──► its copy in shared memory ──► sum + bias ──gate──► finishes ──► y
struct ProductFewParameters {
  ProductParameters product;
  const void* up_weights;  // dt, packed like the weights, whose outputs are gates then; may be null
  const void* up_bias;     // dt [outputs]; may be null
  const int32_t* index;    // [rows]: rows of x; zeros outside; may be null
  void* kept;              // dt [rows, columns], dense: gets the normed rows; may be null
  Norm norm;
  Finish finishes[kMostFinishes];
  int32_t finish_count;
  int32_t gate;  // ActivationKind, where there are up_weights
  int32_t x_rows;
  int32_t columns;     // of x
  int32_t fold;        // FoldKind
  int32_t row_stride;  // few_row_stride
  int32_t shared_bytes;
};
constexpr int kMostFewParts = 128;  // with those of up_weights
/// The distance of rows of x in shared memory, in elements: rows lie in unlike banks.
constexpr int64_t few_row_stride(int64_t k_steps, int64_t element_size) {
  return k_steps * kStepColumns + 16 / element_size;
}
/// What a block of product_few needs besides sums and rows.
constexpr int kProductFewFixedBytes = (2 * kTileRows * 32 + kMostLevels * kTileOutputs * kTileRows) * 4 +
                                      kMostFewParts * static_cast<int>(sizeof(SumPart));
constexpr int64_t product_few_bytes(int64_t parts, int64_t rows, int64_t k_steps, int64_t element_size) {
  return kProductFewFixedBytes + parts * kTileOutputs * kTileRows * 4 +
         rows * few_row_stride(k_steps, element_size) * element_size;
}

/// How a row is cut into groups of 8-bit integers (runtime/core/int8_groups.h); a group has `words` words of four.
struct GroupCut {
  int32_t columns;
  int32_t leaf;
  int32_t width;
  int32_t count;
  int32_t words;
};

/// quantise: a warp is a group of a row.
struct QuantiseParameters {
  const void* x;       // dt [rows, cut.columns]
  uint32_t* integers;  // [rows, count, words]
  float* scales;       // [rows, count]
  int64_t x_stride;
  RowCount rows;
  GroupCut cut;
};
constexpr int kQuantiseThreads = 256;

/// product_int8, product_int8_few: as product and product_few, from quantised rows and weights.
struct ProductInt8Parameters {
  const uint32_t* weights;     // [outputs / 16][count][words][16 outputs]
  const float* weight_scales;  // [outputs / 16][count][16 outputs]
  const uint32_t* x;           // [rows, count, words]
  const float* x_scales;       // [rows, count]
  const void* bias;            // dt [outputs]; may be null
  void* y;                     // dt or f32 [roots, rows, outputs]
  const SumPart* parts;        // steps are groups
  int64_t y_stride;
  int64_t y_plane;
  RowCount rows;
  GroupCut cut;
  int32_t outputs;
  int32_t part_count;
  int32_t is_float;
};

// Experts

/// route: the softmax over the `chosen` highest of a row, zeros elsewhere. A warp is a row.
struct RouteParameters {
  const float* x;  // [rows, experts]
  float* y;        // [rows, experts], dense
  int64_t x_stride;
  RowCount rows;
  int32_t experts;
  int32_t chosen;
};
constexpr int kRouteThreads = 128;

/// list_experts: for each expert of this rank its rows, in order. A block is an expert.
struct ListExpertsParameters {
  const float* route;   // [rows, all experts]
  const int32_t* slot;  // [rows]; negative: the row has no experts; may be null
  int32_t* counts;      // [experts]: rows of an expert
  int32_t* list;        // [experts, rows]: they, ascending
  int32_t* places;      // [rows, experts]: the number of the expert among those of the row, −1: not one of them
  int64_t route_stride;
  RowCount rows;
  int32_t first_expert;
  int32_t experts;
};
constexpr int kListThreads = 256;

/// experts_inner, experts_inner_few: activation(gate · x) · (up · x) of every row of an expert. A block is 16 columns
/// of an expert, and reads its weights once for 32 or for 8 rows.
struct ExpertsInnerParameters {
  const void* gate;  // dt, packed, expert after expert [columns, hidden]
  const void* up;
  const void* gate_bias;  // dt [experts · columns]; both or none
  const void* up_bias;
  const void* x;          // dt [rows, hidden]
  const int32_t* counts;  // as ListExpertsParameters
  const int32_t* list;
  const int32_t* places;
  void* y;               // dt [rows, most, columns]: of an expert in its place
  const SumPart* parts;  // of `hidden`, kPlainParts
  int64_t x_stride;
  int32_t rows;
  int32_t experts;
  int32_t most;  // experts of a row
  int32_t columns;
  int32_t k_steps;  // of hidden
  int32_t activation;
  float limit;
  float alpha;
};

/// A part of a sum over experts: columns of one of them, times its route. After the part, if it `ends` its leaf, the
/// leaf's sum goes onto the stack as in SumPart.
struct ExpertPart {
  SumPart sum;
  int32_t expert;
  int32_t has_bias;  // of the expert's output
  int32_t ends;
};

/// experts_down, experts_down_few: the partial sums of this rank's leaves. A block is 16 outputs of all rows.
struct ExpertsDownParameters {
  const void* down;       // dt, packed, expert after expert [hidden, columns]
  const void* bias;       // dt [experts · hidden]; may be null
  const void* inner;      // dt [rows, most, columns]
  const float* route;     // [rows, all experts]
  const int32_t* places;  // [rows, experts]
  float* y;               // [roots, rows, hidden]
  const ExpertPart* parts;
  int64_t route_stride;
  int64_t y_stride;
  int64_t y_plane;
  RowCount rows;
  int32_t first_expert;
  int32_t experts;
  int32_t most;
  int32_t columns;
  int32_t hidden;
  int32_t k_steps;  // of columns, with padding
  int32_t part_count;
};

// Ranks

constexpr int kMostRanks = 16;
constexpr int kMostRoots = 64;

/// A point that all ranks pass together, block by block. All blocks have to be resident.
struct Meeting {
  uint32_t*
      flags[kMostRanks];  // of each rank, as this device sees them: [ranks, kMostBlocks], zero before the first step
  const uint32_t* step;   // counts steps, from 0; the same on every rank
  const uint32_t* abort;  // not 0: give up
  uint32_t* missing;      // becomes 1 + the rank that did not come
  uint64_t patience;      // nanoseconds until then
  int32_t ranks;
  int32_t rank;
  uint32_t meetings;  // of a step
  uint32_t index;     // of this one
};
constexpr int kMostBlocks = 64;
constexpr int kMeetThreads = 256;

/// sum_of_ranks: the tree sum over the roots of all ranks, rounded, plus a residual; sum_of_roots: without meeting
/// others. Roots are memory that peers see; they alternate between two halves, so a rank may write the next ones while
/// others still read.
struct SumParameters {
  Meeting meeting;
  const float* roots[kMostRanks];  // of each rank: f32 [its roots, rows, columns]
  const int32_t* plan;             // TreeFinish: [ranks + 1] first roots, then pairs (dst, src)
  const void* residual;            // of y's type [rows, columns], dense; may be null
  void* y;                         // dense
  RowCount rows;
  int32_t columns;
  int32_t additions;  // pairs in the plan
  int32_t result;     // the root that holds the sum at the end
  int32_t y_type;     // ElementType
  int32_t is_even;    // one root a rank, added along the even tree; columns are a multiple of 4
};
enum ElementType : int32_t { kF32, kBf16, kF16 };

/// sum_in_slices: the same, in two meetings. A rank finishes its slice of the elements for all of them:
///
///   roots ─meeting─► slice r of rank r, from everybody's roots ─► into the slices of every rank ─meeting─► y
///
/// Slices are memory that peers see, in the half of the second meeting.
struct SlicedSumParameters {
  SumParameters sum;
  void* slices[kMostRanks];  // of each rank: of y's type [rows, columns]
};

/// A range of columns that a gather copies from memory that peers see. Offsets and strides are elements.
struct GatherPiece {
  int64_t from;  // of row 0 in the area of `rank`
  int64_t from_stride;
  int64_t to;  // of row 0 in y
  int64_t to_stride;
  int32_t rank;  // that shows it
  int32_t columns;
};

/// gather_2, gather_4: shows own columns to the other ranks, and copies theirs. A block moves the same rows on every
/// rank.
struct GatherParameters {
  Meeting meeting;
  void* areas[kMostRanks];    // of each rank, seen by all
  const void* x;              // [rows, own columns], copied to the own area first; may be null
  void* y;                    // may be null, without pieces
  const GatherPiece* pieces;  // what y is made of
  int64_t x_stride;
  RowCount rows;
  int32_t own;  // columns of x
  int32_t count;
};

/// rows_of_owners_2, rows_of_owners_4: each row from the rank that holds its slot.
struct OwnersParameters {
  Meeting meeting;
  void* areas[kMostRanks];  // of each rank, seen by all: [rows, columns]; null: it has none of the rows that are wanted
  const void* x;            // [rows, columns]
  void* y;                  // [rows, kept]
  const int32_t* slot;      // [rows]; negative: zeros
  int64_t x_stride;
  int64_t y_stride;
  RowCount rows;
  int32_t own;    // this rank
  int32_t slots;  // of each rank
  int32_t columns;
  int32_t first_kept;
  int32_t kept;
};

// Ranks on several hosts (lower_hosts.cpp)

/// sum_of_host: those additions of a sum that a host can do alone, of some columns.
struct HostSumParameters {
  Meeting meeting;                 // of the host's ranks
  const float* roots[kMostRanks];  // of each rank of the host: f32 [its roots, rows, columns]
  const int32_t*
      plan;  // [ranks + 1] first roots, then pairs (dst, src) of all sums, then the root of each sum's result
  float* y;  // [sums, rows, end − begin]
  RowCount rows;
  int32_t columns;
  int32_t begin;  // columns that are summed here; none: the rank only meets the others
  int32_t end;
  int32_t additions;
  int32_t sums;
};

/// sum_of_hosts: the other additions, as sum_of_ranks ends. Each rail got some columns of the sums of all hosts.
struct HostsSumParameters {
  Meeting meeting;                    // of the host's ranks
  const float* received[kMostRanks];  // by each rail: f32 [roots, rows, its columns]
  const int32_t* plan;                // [rails + 1] bounds of the rails' columns, then pairs (dst, src)
  const void* residual;               // of y's type [rows, columns], dense; may be null
  void* y;                            // dense
  RowCount rows;
  int32_t columns;
  int32_t rails;
  int32_t roots;  // of all hosts
  int32_t additions;
  int32_t result;
  int32_t y_type;  // ElementType
};

/// owners_of_hosts_2, owners_of_hosts_4: each row from the host whose rank holds its slot. Each rail got some columns
/// of the rows of all hosts.
struct HostsOwnersParameters {
  Meeting meeting;                   // of the host's ranks
  const void* received[kMostRanks];  // by each rail: [hosts, rows, its columns]
  const int32_t* plan;               // [rails + 1] bounds of the rails' columns, then the host of each rank
  void* y;                           // [rows, kept]
  const int32_t* slot;               // [rows]; negative: zeros
  int64_t y_stride;
  RowCount rows;
  int32_t slots;  // of each rank
  int32_t ranks;  // of all hosts
  int32_t rails;
  int32_t first_kept;
  int32_t kept;
};

// Dynamic shared memory of a block, in bytes

constexpr int tile_sum_bytes(int groups) {
  return (kProductWarps + kMostLevels) * groups * kTileOutputs * kTileRows * static_cast<int>(sizeof(float));
}
constexpr int kMultiprocessorSharedBytes = 228 * 1024;  // of compute capability 9.0; each block takes 1 KiB of it
constexpr int kMostSharedBytes = 200 * 1024;            // that a block takes
constexpr int kHeadsSharedBytes = (2 * 32 + kMostHeadDim) * static_cast<int>(sizeof(float));
constexpr int kProductSharedBytes = tile_sum_bytes(4);
constexpr int kMostTilesBytes = 227 * 1024;  // of a block of product_tiles: all that compute capability 9.0 gives one
/// Of product_tiles and product_wide: stages of 128 bytes of each row, and the open sums.
constexpr int product_tiles_bytes(int groups, int levels) {
  return groups * kTileRows *
         (kTilesStages * 128 + levels * kProductWarps * kTileOutputs * static_cast<int>(sizeof(float)));
}
constexpr int kProductInt8FewSharedBytes = tile_sum_bytes(1);
constexpr int kProductInt8SharedBytes = tile_sum_bytes(4);
constexpr int kRouteSharedBytes = 0;
constexpr int kListExpertsSharedBytes = kListThreads * static_cast<int>(sizeof(int32_t));
constexpr int experts_down_bytes(int groups) {
  return tile_sum_bytes(groups) + groups * kTileOutputs * kTileRows * static_cast<int>(sizeof(float));
}
constexpr int kExpertsInnerFewSharedBytes = 2 * tile_sum_bytes(1);
constexpr int kExpertsInnerSharedBytes = 2 * tile_sum_bytes(4);
constexpr int kExpertsDownFewSharedBytes = experts_down_bytes(1);
constexpr int kExpertsDownSharedBytes = experts_down_bytes(4);

}  // namespace lockstep::cuda
