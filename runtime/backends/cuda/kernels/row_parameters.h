// Parameters of the kernels that work on rows: embeddings, norms, elementwise functions (parameters.h).
#pragma once

#include <cstdint>

namespace lockstep::cuda {

/// The rows of a launch, of which a step computes the first `in_use`.
struct RowCount {
  const int32_t* in_use;  // null: all
  int32_t rows;
};

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

/// take_rows_2, take_rows_4: y[t] = from[index[t] + offset]; outside, from[otherwise] or zeros; zeros where mask[t] <
/// 0. A block is a row.
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
  int32_t otherwise;  // −1: zeros
  int32_t columns;
};
constexpr int kTakeRowsThreads = 128;

/// take_columns_2, take_columns_4: column i of y is column order[i] of x. A thread is an element.
struct TakeColumnsParameters {
  const void* x;       // [rows, width]
  const float* order;  // [columns]
  void* y;             // [rows, columns]
  int64_t x_stride;
  int64_t y_stride;
  RowCount rows;
  int32_t width;
  int32_t columns;
};

/// join_heads_2, join_heads_4: for each head, its columns of x, then those of z. A thread is an element.
struct JoinHeadsParameters {
  const void* x;  // [rows, heads · of_x]
  const void* z;  // [rows, heads · of_z]
  void* y;
  int64_t x_stride;
  int64_t z_stride;
  int64_t y_stride;
  RowCount rows;
  int32_t columns;  // of y
  int32_t of_x;
  int32_t of_z;
};

enum MapKind : int32_t { kMapAdd, kMapMultiply, kMapScale, kMapSoftCap, kMapActivate, kMapGate };
enum ActivationKind : int32_t { kSilu, kSigmoid, kGelu, kGeluTanh, kRelu, kSquaredRelu, kClampedSwiglu };

/// map: y = x + z, x · z, x · number, number · tanh(x / number), activation(x), or activation(x) · z. A thread is an
/// element.
struct MapParameters {
  const void* x;  // dt [rows, columns], as z and y
  const void* z;
  void* y;
  int64_t x_stride;
  int64_t z_stride;  // 0: one row for all
  int64_t y_stride;
  RowCount rows;
  int32_t columns;
  int32_t z_columns;  // 1: one number for each row, or for all
  int32_t kind;
  int32_t activation;
  float number;
};
constexpr int kMapThreads = 256;

/// scale_rows: y[t] = x[t] · factors[t], or with positions · factors[(position[t] + offset) / every]. A thread is an
/// element.
struct ScaleRowsParameters {
  const void* x;  // dt [rows, columns], as y
  void* y;
  const float* factors;     // of rows, or `last` + 1 of positions
  const int32_t* position;  // [rows]; null: none
  int64_t x_stride;
  int64_t y_stride;
  int64_t factors_stride;
  RowCount rows;
  int32_t columns;
  int32_t every;
  int32_t offset;
  int32_t last;
};

/// cut_off: y = max(x − (mean + number · deviation), 0). match_magnitude: y = x · rms(like) / max(rms(x), √number). A
/// block is a row.
struct StreamParameters {
  const void* x;  // dt [rows, columns], as like and y
  const void* like;
  void* y;
  int64_t x_stride;
  int64_t like_stride;
  int64_t y_stride;
  RowCount rows;
  int32_t columns;
  float number;
};

/// weighted_sum: y = Σ (factors[i] + offset) · x[i]. A thread is an element.
constexpr int kMostTermsOfSum = 8;
struct WeightedSumParameters {
  const void* factors;  // dt [rows, …], from the first term's
  const void* x[kMostTermsOfSum];
  void* y;
  int64_t factors_stride;
  int64_t x_strides[kMostTermsOfSum];
  int64_t y_stride;
  RowCount rows;
  int32_t columns;
  int32_t terms;
  float offset;
};

/// The weights of a norm and its formula.
struct Norm {
  const void* weight;  // dt [columns]; null: 1
  const void* bias;    // dt [columns]; null: none
  float epsilon;
  float offset;        // added to the weight
  int32_t has_offset;  // then x / root of an RMS norm is not rounded before it is multiplied
  int32_t has_mean;    // a layer norm
  int32_t is_present;  // 0: no norm
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

}  // namespace lockstep::cuda
