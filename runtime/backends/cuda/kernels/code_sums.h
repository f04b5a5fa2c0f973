// Sums over K of a tile with weights in codes: 16 outputs of a few groups of 8 rows (runtime/graph/OPERATIONS.md,
// Weights in codes).
//
//   lane 0 … 15   output 0 … 15, groups 0, 2, 4, … of the part ─┐
//   lane 16 … 31  output 0 … 15, groups 1, 3, 5, …             ─┴─ the sum of both: 16 outputs × 8, 16 … rows
//
// A lane loads up to 16 bytes of codes at once and decodes them in registers, once for all rows. An element's sum
// depends on its part's groups alone: not on the rows, nor on the other outputs.
#pragma once

#include "runtime/backends/cuda/kernels/codes.h"
#include "runtime/backends/cuda/kernels/sum_tile.h"

namespace lockstep::cuda {

/// How many codes of a word are unrolled beside so many rows: all of them times 16 rows are too long a program.
template <int kRows>
constexpr int kUnrolledCodes = kRows == kTileRows ? kCodesOfWord : 1;

/// One lane's group: its codes, and what they mean.
struct CodedGroup {
  const CodedOperand& operand;
  const unsigned char* tile;
  int output;
  int group;
  Columns columns;
  GroupPlace place;
  BesideCodes beside;

  /// Calls `take(word, first)` for each word of codes; `first` is the column of its first code.
  template <typename Take>
  LOCKSTEP_DEVICE void for_words(Take take) const {
    const CodeLayout& layout = operand.layout;
    const int of_word = codes_of_word(layout);
    const uint32_t* codes = reinterpret_cast<const uint32_t*>(tile) + place.words + output * layout.load;
    const int begin = columns.begin - place.first;
    for (int word = 0; begin + word * of_word < columns.end; word += layout.load) {
      const Words loaded = load_codes(codes + static_cast<int64_t>(word) * kTileOutputs, layout.load);
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (i >= layout.load) break;
        take(loaded.word[i], begin + (word + i) * of_word);
      }
    }
  }
};

/// Adds a group's products with rows of elements. `row_at(row)` is the number of a row of x; negative: none.
template <typename Rows, int kRows, typename RowAt>
LOCKSTEP_DEVICE void add_elements(const CodedGroup& g, RowAt row_at, float (&sums)[kRows]) {
  using Element = typename Rows::Element;
  const CodeLayout& layout = g.operand.layout;
  const Element* x = static_cast<const Element*>(g.operand.x);
  const auto value = [&](int row, int column) { return Rows::read(x[row_at(row) * g.operand.x_stride + column]); };
  const float zero = layout.offset_kind == kZeroOffsets ? g.beside.offset : 0.0f;
  float products[kRows] = {};
  g.for_words([&](uint32_t word, int first) {
    LOCKSTEP_UNROLL_BY(kUnrolledCodes<kRows>)
    for (int place = 0; place < kCodesOfWord; ++place) {
      const int column = first + place;
      if (place >= codes_of_word(layout)) break;
      if (column < g.columns.begin || column >= g.columns.end) continue;
      const float code = plus(code_value(layout, word, place), -zero);
      LOCKSTEP_UNROLL
      for (int row = 0; row < kRows; ++row) {
        if (row_at(row) >= 0) products[row] = madd(value(row, column), code, products[row]);
      }
    }
  });
  LOCKSTEP_UNROLL
  for (int row = 0; row < kRows; ++row) {
    sums[row] = madd(products[row], g.beside.scale, sums[row]);
    if (layout.offset_kind != kMinimumOffsets || row_at(row) < 0) continue;
    float all = 0.0f;
    for (int column = g.columns.begin; column < g.columns.end; ++column) all = plus(all, value(row, column));
    sums[row] = madd(all, g.beside.offset, sums[row]);
  }
}

/// What a group's integers have beside `bytes_of_codes`, for each integer of x.
LOCKSTEP_DEVICE int32_t shift_of_bytes(const CodedGroup& g) {
  const CodeLayout& layout = g.operand.layout;
  if (layout.form == kE2M1) return 0;
  const int32_t less = layout.form == kInteger8 ? 128 : 0;
  if (layout.offset_kind == kNoOffsets) return layout.form == kInteger8 ? 0 : -8;
  return layout.offset_kind == kZeroOffsets ? less - whole_of(g.beside.offset) : less;
}

/// The same with rows of 8-bit integers: a group's sum of products is exact.
template <int kRows, typename RowAt>
LOCKSTEP_DEVICE void add_integers(const CodedGroup& g, RowAt row_at, float (&sums)[kRows]) {
  const CodeLayout& layout = g.operand.layout;
  const auto group_of = [&](int row) { return static_cast<int64_t>(row_at(row)) * layout.groups.count + g.group; };
  int32_t whole[kRows] = {};
  g.for_words([&](uint32_t word, int first) {
    LOCKSTEP_UNROLL_BY(kUnrolledCodes<kRows>)
    for (int half = 0; half < kCodesOfWord / 4; ++half) {
      const int column = first + 4 * half;
      if (half >= codes_of_word(layout) / 4) break;
      if (column < g.columns.begin || column >= g.columns.end) continue;
      const uint32_t bytes = bytes_of_codes(layout, word, half);
      const int at = (column - g.columns.begin) / 4;
      LOCKSTEP_UNROLL
      for (int row = 0; row < kRows; ++row) {
        if (row_at(row) < 0) continue;
        whole[row] = dot_bytes(bytes, g.operand.integers[group_of(row) * layout.groups.words + at], whole[row]);
      }
    }
  });
  const int32_t shift = shift_of_bytes(g);
  LOCKSTEP_UNROLL
  for (int row = 0; row < kRows; ++row) {
    if (row_at(row) < 0) continue;
    const int32_t of_x = g.operand.x_sums[group_of(row)];
    const float x_scale = g.operand.x_scales[group_of(row)];
    float sum = float_of_whole(whole[row] + shift * of_x);
    if (layout.form == kE2M1) sum = times(sum, 0.5f);
    sums[row] = madd(times(sum, g.beside.scale), x_scale, sums[row]);
    if (layout.offset_kind != kMinimumOffsets) continue;
    sums[row] = madd(times(float_of_whole(of_x), g.beside.offset), x_scale, sums[row]);
  }
}

/// Sums a part of a tile's sums into `to`.
template <typename Rows, int kGroups, typename RowAt>
LOCKSTEP_DEVICE void sum_codes(const CodedOperand& operand, int64_t tile, const SumPart& part, RowAt row_at,
                               float (&to)[kGroups][kTileElements]) {
  constexpr int kRows = kGroups * kTileRows;
  const int output = thread_index() % kTileOutputs;
  const int half = thread_index() % 32 / kTileOutputs;
  const auto* codes = static_cast<const unsigned char*>(operand.weights) + tile * operand.layout.tile_bytes;
  float sums[kRows] = {};
  for (int group = part.first_step + half; group < part.first_step + part.steps; group += 2) {
    const CodedGroup own{operand,
                         codes,
                         output,
                         group,
                         columns_of(operand.layout.groups, group),
                         place_of_group(operand.layout, group),
                         beside_codes(operand.layout, codes, group, output)};
    if (operand.integers == nullptr) {
      add_elements<Rows, kRows>(own, row_at, sums);
    } else {
      add_integers<kRows>(own, row_at, sums);
    }
  }
  LOCKSTEP_UNROLL
  for (int row = 0; row < kRows; ++row) {
    const float sum = plus(sums[row], shuffle_xor(sums[row], kTileOutputs));
    if (row % 2 == half) to[row / kTileRows][output * kTileRows + row % kTileRows] = sum;
  }
}

}  // namespace lockstep::cuda
