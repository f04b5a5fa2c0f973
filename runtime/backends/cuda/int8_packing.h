// Weights as 8-bit integers and scales, by groups of columns (runtime/core/int8_groups.h):
//
//   tile of 16 outputs ─► group ─► word of 4 columns ─► output        then, as f32: tile ─► group ─► output
//
// Every group has as many words as the widest one; columns and outputs beyond the edges are zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/core/dtype.h"
#include "runtime/core/int8_groups.h"

namespace lockstep::cuda {

/// A matrix [outputs, groups.columns] in packed form.
struct Int8Packing {
  int64_t outputs = 0;
  ColumnGroups groups;

  int64_t tiles() const { return (outputs + 15) / 16; }
  /// Words of a group.
  int64_t words() const;
  int64_t integer_bytes_of_tile() const { return groups.count() * words() * 64; }
  int64_t scale_bytes_of_tile() const { return groups.count() * 64; }
  /// Where the scales begin.
  int64_t scale_offset() const { return tiles() * integer_bytes_of_tile(); }
  int64_t bytes() const { return scale_offset() + tiles() * scale_bytes_of_tile(); }
  /// Quantises and packs a tile, whose rows of `dtype` are `src`, into its integers and scales. Several threads may
  /// pack tiles at once.
  void pack_tile(DType dtype, int64_t tile, std::span<const std::byte> src, std::span<std::byte> integers,
                 std::span<std::byte> scales) const;
  /// Quantises and packs the matrix, row-major elements of `dtype` in `src`, into its `bytes()`.
  void pack(DType dtype, std::span<const std::byte> src, std::span<std::byte> dst) const;

  friend bool operator==(const Int8Packing&, const Int8Packing&) = default;
};

}  // namespace lockstep::cuda
