// The memory layout of a weight matrix [N, K] in codes: panels of 64 output rows, read in one stream.
//
//   panel 0                                              a line is 4 or 8 columns of K of each row (kernels/coded.h); a
//   group 0   line 0 of w[0..63]     256 bytes           group's last line is filled up with any codes, because x is 0
//             …                                          there; the last panel has only as many strips of 16 rows as
//             scales of w[0..63]     in their type       needed
//             zeros or minima        if the format has
//   group 1   …                                          a second matrix (of experts) follows the first one
//
// A row of x is arranged in the same order: its steps, then for each group a scale and the sum of the integers; or
// three such rows of integers in digits; or, for floats, only its steps.
#pragma once

#include <optional>

#include "runtime/backends/cpu/kernels/coded.h"
#include "runtime/core/column_groups.h"
#include "runtime/graph/graph.h"

namespace lockstep::cpu {

struct CodedPacking {
  int64_t n = 0;  // output rows of one part
  ColumnGroups groups;
  WeightFormat format;
  DotKind dots = DotKind::kFloats;
  int64_t parts = 1;  // matrices of n rows, one after the other

  int64_t line_columns() const { return columns_of_line(format.bits); }
  int64_t steps_of_line() const { return cpu::steps_of_line(dots, format.bits); }
  int64_t lines_of(int64_t group) const { return (groups.of(group).size() + line_columns() - 1) / line_columns(); }
  /// Lines of each group except the last of a leaf.
  int64_t group_lines() const { return (groups.width + line_columns() - 1) / line_columns(); }
  /// Lines of all groups before `group`, which may equal the number of groups.
  int64_t lines_before(int64_t group) const;
  int64_t lines() const { return lines_before(groups.count()); }
  int64_t strips() const { return (n + kStrip - 1) / kStrip; }
  int64_t panels() const { return (strips() + kPanelStrips - 1) / kPanelStrips; }
  int64_t strips_of_panel(int64_t panel) const {
    const int64_t left = strips() - panel * kPanelStrips;
    return left < kPanelStrips ? left : kPanelStrips;
  }
  int64_t offset_bytes() const { return bytes_of_offset(format.offset, format.bits, size_of(format.scale)); }
  /// Bytes of a strip before `group`.
  int64_t strip_bytes_before(int64_t group) const {
    return kLineBytes * lines_before(group) + kStrip * (size_of(format.scale) + offset_bytes()) * group;
  }
  int64_t panel_offset(int64_t panel) const { return panel * kPanelStrips * strip_bytes_before(groups.count()); }
  int64_t bytes_of_part() const { return (strips() * strip_bytes_before(groups.count()) + 63) / 64 * 64; }
  int64_t bytes() const { return parts * bytes_of_part(); }

  /// Whether panels already are steps, scales in float32 and nothing else, so that they need no expansion.
  bool is_expanded() const { return has_bytes(dots) && format == WeightFormat{.bits = 8, .group = format.group}; }
  /// The codes of some strips of a panel of `data`, the first part.
  CodedWeights weights_of(const std::byte* data, int64_t panel, Range strips) const;

  /// In an arranged row of integers (or of floats): its steps, the offsets of its scales and sums, and the size.
  int64_t steps() const { return lines() * steps_of_line(); }
  int64_t scales_offset() const { return steps() * 4; }
  int64_t sums_offset() const { return scales_offset() + groups.count() * 4; }
  int64_t row_bytes() const;
  /// Of an arranged row of x.
  int64_t arranged_bytes() const { return digits_of(dots) * row_bytes(); }
  /// Whether rows of `dtype` need arranging; false if they already have that layout.
  bool needs_arranging(DType dtype) const {
    return has_bytes(dots) || dtype != DType::kFloat32 || steps() != groups.columns;
  }
  /// Rows from `first` on, `stride` bytes apart, of which each may be several rows of integers.
  ArrangedRows arranged_rows(const std::byte* first, int64_t stride, int64_t rows) const;

  friend bool operator==(const CodedPacking&, const CodedPacking&) = default;
};

/// A packed weight.
struct CodedWeight {
  CodedPacking packing;
  const std::byte* data = nullptr;
};

/// Whether products with `format` exist: integers with any offset, small floats without.
bool is_multiplied(const WeightFormat& format, int64_t columns);

/// The packing of operand `operand` of `node`; empty if it is not multiplied in codes.
std::optional<CodedPacking> coded_packing_of(const graph::Graph& graph, const graph::Node& node, size_t operand);

/// Packs one panel, counted through all parts: `rows` begin with its first row, `dst` is the whole packed matrix.
/// Several threads may pack panels at once. A scale that is NaN, or a NaN among the codes, makes the row's group NaN.
void pack_coded_panel(const CodedPacking& packing, int64_t panel, const CodedRows& rows, std::byte* dst);

/// Decodes row `row` (of parts · n) of a packed matrix into `groups.columns` floats.
void decode_coded_row(const CodedPacking& packing, const std::byte* packed, int64_t row, float* dst);

/// Arranges the groups [begin, end) of a row of x in `dst`, a row of `arranged_bytes()`.
void arrange_coded(const Kernels& kernels, const CodedPacking& packing, ConstRow x, Range groups, std::byte* dst);

}  // namespace lockstep::cpu
