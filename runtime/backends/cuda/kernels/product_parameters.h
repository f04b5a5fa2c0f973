// Parameters of the kernels of products and experts (parameters.h).
#pragma once

#include <cstdint>

#include "runtime/backends/cuda/kernels/row_parameters.h"

namespace lockstep::cuda {

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
  int32_t first_step;  // of 16 columns; of weights in codes: group
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
constexpr int kTilesStages = 4, kWideStages = 3;

/// product_heads, product_heads_tiles: product and product_tiles, each head with its own columns of x and outputs of w.
/// The blocks of a head are side by side.
struct ProductHeadsParameters {
  ProductParameters first;  // the product of head 0
  int64_t x_columns;        // of a head
  int64_t weights;          // packed elements of a head
  int64_t blocks;           // of a head
};

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
  int32_t warp_steps;  // of a warp's parts of a tile, at most
  int32_t is_dense;    // every step has 16 columns of x, which follow those of the step before
  int32_t shared_bytes;
  int32_t unused = 0;  // no padding behind `finishes`: see clear_padding
};
constexpr int kMostFewParts = 128;    // with those of up_weights
constexpr int kMostFewThreads = 512;  // of a block of product_few; kProductThreads where it norms
/// The distance of rows of x in shared memory, in elements: rows lie in unlike banks.
constexpr int64_t few_row_stride(int64_t k_steps, int64_t element_size) {
  return k_steps * kStepColumns + 16 / element_size;
}
/// What a block of product_few needs besides sums and rows.
constexpr int kProductFewFixedBytes = (2 * kTileRows * 32 + kMostLevels * kTileOutputs * kTileRows) * 4 +
                                      kMostFewParts * static_cast<int>(sizeof(SumPart));
constexpr int64_t product_few_bytes(int64_t parts, int64_t listed_steps, int64_t rows, int64_t k_steps,
                                    int64_t element_size) {
  return kProductFewFixedBytes + parts * kTileOutputs * kTileRows * 4 + listed_steps * 4 +
         rows * few_row_stride(k_steps, element_size) * element_size;
}

// Experts

/// route: the weights of the `chosen` experts of a row (runtime/graph/OPERATIONS.md, Routes); zeros elsewhere. A warp
/// is a row.
struct RouteParameters {
  const float* x;     // [rows, experts]
  const float* bias;  // [experts], of the choice; null: none
  float* y;           // [rows, experts], dense
  int64_t x_stride;
  RowCount rows;
  int32_t experts;
  int32_t chosen;
  int32_t is_over_all;
  int32_t is_sigmoid;
  int32_t groups;
  int32_t kept_groups;
  int32_t by_best_two;
  float least_sum;
  float scale;
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
  const float* route;  // [rows, all experts], on gate · x and up · x; null: on the sums of the experts
  int64_t route_stride;
  int32_t first_expert;
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
  const float* route;     // [rows, all experts]; null: 1
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

}  // namespace lockstep::cuda
