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
  Int8Groups groups;

  int64_t tiles() const { return (outputs + 15) / 16; }
  /// Words of a group.
  int64_t words() const;
  /// Where the scales begin.
  int64_t scale_offset() const { return tiles() * groups.count() * words() * 64; }
  int64_t bytes() const { return scale_offset() + tiles() * groups.count() * 64; }
  /// Quantises and packs the matrix, row-major elements of `dtype` in `src`. The caller zeroes `dst` before.
  void pack(DType dtype, std::span<const std::byte> src, std::span<std::byte> dst) const;

  friend bool operator==(const Int8Packing&, const Int8Packing&) = default;
};

}  // namespace lockstep::cuda
