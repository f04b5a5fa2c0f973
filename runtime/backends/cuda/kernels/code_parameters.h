// Parameters of the kernels of weights in codes, and of roundings to 8 bits (parameters.h).
#pragma once

#include <cstdint>

#include "runtime/backends/cuda/kernels/product_parameters.h"
#include "runtime/backends/cuda/kernels/row_parameters.h"

namespace lockstep::cuda {

/// How a row is cut into groups of columns (runtime/core/column_groups.h). In 8-bit integers a group has `words` words
/// of four.
struct GroupCut {
  int32_t columns;
  int32_t leaf;
  int32_t width;
  int32_t count;
  int32_t words;
};

/// What a code stands for: runtime/core/weight_format.h.
enum CodeForm : int32_t { kInteger4, kInteger8, kE2M1, kE4M3 };
enum CodeScale : int32_t { kScaleF32, kScaleBf16, kScaleF16, kScalePowerOfTwo };  // as ScaleType
enum CodeOffset : int32_t { kNoOffsets, kZeroOffsets, kMinimumOffsets };          // as GroupOffset

/// A tile of 16 outputs in codes (coded_packing.h). A unit is a group, or the groups that share a word.
struct CodeLayout {
  GroupCut groups;
  int64_t tile_bytes;
  int64_t scales;   // where they begin
  int64_t offsets;  // zeros or minima
  int32_t form;     // CodeForm
  int32_t scale_type;
  int32_t offset_kind;
  int32_t words;  // of a unit, whole loads
  int32_t load;   // words that lie together: 1, 2 or 4
  int32_t groups_of_word;
  int32_t units_of_leaf;
};

/// quantise: rows as 8-bit integers in groups (runtime/core/int8_groups.h), with the sum of each group's integers. A
/// warp is a group of a row.
struct QuantiseParameters {
  const void* x;       // dt [rows · rows_of_one, cut.columns]
  uint32_t* integers;  // [rows · rows_of_one, count, words]
  float* scales;       // [rows · rows_of_one, count]
  int32_t* sums;       // [rows · rows_of_one, count]
  int64_t x_stride;
  RowCount rows;
  int32_t rows_of_one;  // of a token
  GroupCut cut;
};
constexpr int kQuantiseThreads = 256;

/// fake_quantise: y = code(x / scale) · scale. A warp is a group of a row.
struct FakeQuantiseParameters {
  const void* x;       // dt [rows, columns]
  const float* scale;  // of all; null: of each group its own
  float* y;            // [rows, columns]
  int64_t x_stride;
  int64_t y_stride;
  RowCount rows;
  int32_t columns;
  int32_t group;
  int32_t is_e4m3;
  int32_t rows_of_one;  // rows of x for each row in use
};

/// A weight in codes, and the rows that it is multiplied with: elements, or 8-bit integers in the weight's groups.
struct CodedOperand {
  const void* weights;  // tile after tile
  CodeLayout layout;
  const void* x;             // dt [rows, columns]
  const uint32_t* integers;  // [rows, count, words]; null: x as it is
  const float* x_scales;     // [rows, count]
  const int32_t* x_sums;     // [rows, count]
  int64_t x_stride;
};

/// product_codes, product_codes_few: as product, with weights in codes. A block is 16 outputs of all rows, and reads
/// its weights once for 16 or for 8 rows. The parts' steps are groups.
struct ProductCodesParameters {
  CodedOperand operand;
  const void* bias;  // dt [outputs]; may be null
  void* y;           // [roots, rows, outputs]
  const SumPart* parts;
  int64_t y_stride;
  int64_t y_plane;
  RowCount rows;
  int32_t outputs;
  int32_t part_count;
  int32_t y_type;  // ElementType
};
constexpr int kCodeGroups = 2;  // of 8 rows, where there are more than 8

/// embed_codes: as embed. A block is a row.
struct EmbedCodesParameters {
  EmbedParameters embed;
  CodeLayout layout;
};

/// experts_inner_codes, experts_inner_codes_few: as experts_inner, with weights in codes.
struct ExpertsInnerCodesParameters {
  ExpertsInnerParameters experts;
  CodedOperand gate;
  CodedOperand up;
};

/// experts_down_codes, experts_down_codes_few: as experts_down.
struct ExpertsDownCodesParameters {
  ExpertsDownParameters experts;
  CodedOperand down;  // its rows are [rows, most]
};

}  // namespace lockstep::cuda
