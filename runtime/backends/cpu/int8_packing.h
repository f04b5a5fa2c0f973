// The memory layout of a weight matrix [N, K] for 8-bit products: panels of 64 output rows, read in one stream.
//
//   panel 0                                            a step is four columns of K of each row: w[n][4s … 4s+3] as
//   group 0   step 0: w[0..63][0..3]    256 bytes      unsigned integers, 128 being zero; a group's last step is
//             step 1: w[0..63][4..7]                   filled up with zeros
//             …
//             scales of w[0..63]        64 floats      the last panel has only as many strips of 16 rows as needed
//   group 1   …
//
// A row of x is arranged in the same order: its integers by steps, then a scale and an offset (−128 · Σ of the
// integers) for each group.
#pragma once

#include <optional>

#include "runtime/backends/cpu/kernels/int8.h"
#include "runtime/core/int8_groups.h"
#include "runtime/graph/graph.h"

namespace lockstep::cpu {

struct Int8Packing {
  int64_t n = 0;  // output rows
  ColumnGroups groups;
  DType dtype = DType::kFloat32;  // of the unpacked matrix

  int64_t steps_of(int64_t group) const { return (groups.of(group).size() + kInt8Columns - 1) / kInt8Columns; }
  /// Steps of all groups before `group`, which may equal the number of groups.
  int64_t steps_before(int64_t group) const;
  int64_t strips() const { return (n + kStrip - 1) / kStrip; }
  int64_t panels() const { return (strips() + kPanelStrips - 1) / kPanelStrips; }
  int64_t strips_of_panel(int64_t panel) const {
    const int64_t left = strips() - panel * kPanelStrips;
    return left < kPanelStrips ? left : kPanelStrips;
  }
  /// Bytes of a strip before `group`: its steps and one line of scales for each group.
  int64_t strip_bytes_before(int64_t group) const { return kInt8StripStep * (steps_before(group) + group); }
  int64_t step_stride(int64_t panel) const { return strips_of_panel(panel) * kInt8StripStep; }
  int64_t panel_offset(int64_t panel) const { return panel * kPanelStrips * strip_bytes_before(groups.count()); }
  int64_t bytes() const { return strips() * strip_bytes_before(groups.count()); }

  /// In an arranged row of x: the offset of its scales, the offset of its offsets, and the size.
  int64_t scales_offset() const { return (steps_before(groups.count()) * kInt8Columns + 63) / 64 * 64; }
  int64_t offsets_offset() const { return scales_offset() + groups.count() * static_cast<int64_t>(sizeof(float)); }
  int64_t arranged_bytes() const {
    return (offsets_offset() + groups.count() * static_cast<int64_t>(sizeof(int32_t)) + 63) / 64 * 64;
  }

  friend bool operator==(const Int8Packing&, const Int8Packing&) = default;
};

/// The packing of operand `operand` of `node`; empty if it is not multiplied in 8 bits.
std::optional<Int8Packing> int8_packing_of(const graph::Graph& graph, const graph::Node& node, size_t operand);

/// Packs `src`, row-major [n, columns] of `packing.dtype`, into `dst` of `packing.bytes()`.
void pack_int8(const Kernels& kernels, const Int8Packing& packing, const std::byte* src, std::byte* dst);

/// Packs one panel: `src` is its first row, `dst` the whole packed matrix. Several threads may pack panels at once.
void pack_int8_panel(const Kernels& kernels, const Int8Packing& packing, int64_t panel, const std::byte* src,
                     std::byte* dst);

/// Arranges the groups [begin, end) of a row of x in `dst`, a row of `arranged_bytes()`.
void arrange_int8(const Kernels& kernels, const Int8Packing& packing, ConstRow x, Range groups, std::byte* dst);

}  // namespace lockstep::cpu
