// The memory layout of a weight matrix [N, K] for dot products: panels of 64 output rows, read in one stream.
//
//   panel 0                                 panel 1            a step is one column k, or a pair of columns (2s, 2s+1)
//   step 0: w[0..63][0]   64 elements       step 0: …          of bfloat16 with pair products; the last
//   step 1: w[0..63][1]                                        panel has only as many strips of 16 rows as needed
//
// For `linear_blocks` K is cut into leaves; with pairs, a leaf of odd width is padded with a zero column, so that no
// pair crosses a leaf. The matrices of experts, stacked along N, are packed separately.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/dtype.h"
#include "runtime/graph/graph.h"

namespace lockstep::cpu {

struct Packing {
  int64_t n = 0;     // output rows of one part
  int64_t k = 0;     // columns as in the checkpoint
  int64_t leaf = 1;  // columns of a padded leaf; k (at least 1) if only the end is padded
  DType dtype = DType::kFloat32;
  bool pairs = false;
  int64_t parts = 1;  // matrices of n rows, one after the other

  /// The packing for leaves of `block` columns; the same as for a plain linear if no leaf needs padding.
  static Packing for_leaves(int64_t n, int64_t k, int64_t block, DType dtype, bool pairs) {
    const bool pads = pairs && block % 2 != 0 && block < k;
    return {.n = n, .k = k, .leaf = pads ? block : std::max<int64_t>(k, 1), .dtype = dtype, .pairs = pairs};
  }

  /// Columns of a leaf of `width`, with padding.
  int64_t padded_leaf(int64_t width) const { return pairs ? (width + 1) / 2 * 2 : width; }

  /// Columns with padding; x must be arranged for the kernels in the same way.
  int64_t padded_k() const { return k / leaf * padded_leaf(leaf) + padded_leaf(k % leaf); }
  int64_t steps() const { return pairs ? padded_k() / 2 : padded_k(); }
  int64_t strips() const { return (n + kStrip - 1) / kStrip; }
  int64_t panels() const { return (strips() + kPanelStrips - 1) / kPanelStrips; }
  int64_t strips_of_panel(int64_t panel) const {
    const int64_t left = strips() - panel * kPanelStrips;
    return left < kPanelStrips ? left : kPanelStrips;
  }
  int64_t bytes_per_strip_step() const { return kStrip * static_cast<int64_t>(size_of(dtype)) * (pairs ? 2 : 1); }
  /// Bytes between steps of a panel.
  int64_t step_stride(int64_t panel) const { return strips_of_panel(panel) * bytes_per_strip_step(); }
  int64_t panel_offset(int64_t panel) const { return panel * kPanelStrips * bytes_per_strip_step() * steps(); }
  /// The rows of the matrix in a panel; panels are counted through all parts.
  Range rows_of_panel(int64_t panel) const {
    const int64_t first = panel / panels() * n + panel % panels() * kPanel;
    return {first, std::min(first + kPanel, (panel / panels() + 1) * n)};
  }
  int64_t bytes_of_part() const { return strips() * bytes_per_strip_step() * steps(); }
  int64_t bytes() const { return parts * bytes_of_part(); }
  /// The column of x for the packed column, or −1 for padding: packed leaves start at multiples of `padded_leaf(leaf)`.
  int64_t column_of(int64_t packed) const;

  friend bool operator==(const Packing&, const Packing&) = default;
};

/// Packs `src`, row-major [parts · n, k], into `dst` of `packing.bytes()`.
void pack(const Packing& packing, const std::byte* src, std::byte* dst);

/// Packs one panel, counted through all parts: `src` is its first row (`rows_of_panel`), `dst` the whole packed matrix.
/// Several threads may pack panels at once.
void pack_panel(const Packing& packing, int64_t panel, const std::byte* src, std::byte* dst);

/// Copies row `row` (of parts · n) out of a packed matrix; `dst` has k elements.
void unpack_row(const Packing& packing, const std::byte* packed, int64_t row, std::byte* dst);

/// Arranges a row of x, k elements of the model's type, for products with such a weight: bfloat16 with padding for
/// pairs, else float32. `dst` has `arranged_bytes(packing)`.
void arrange_row(const Kernels& kernels, const Packing& packing, ConstRow x, std::byte* dst);
inline int64_t arranged_bytes(const Packing& packing) { return packing.padded_k() * (packing.pairs ? 2 : 4); }
/// Whether rows of `dtype` need arranging; false if they already have that layout.
bool needs_arranging(const Packing& packing, DType dtype);

/// The packing of a weight for a node: the store packs with it, and the compiler finds the weight by it. Empty if the
/// node reads that operand row by row.
std::optional<Packing> packing_of(const Kernels& kernels, const graph::Graph& graph, const graph::Node& node,
                                  size_t operand);

}  // namespace lockstep::cpu
