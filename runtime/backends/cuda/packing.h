// Weights as the fragments of a tensor core, so that 16 bytes of a lane go from memory into an operand.
//
//   tile of 16 outputs ─► step of 16 columns ─► lane 4·g + t ─► (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
//                                                              (g, 2t+8) (g, 2t+9) (g+8, 2t+8) (g+8, 2t+9)
//
// Outputs and columns beyond the edges are zeros. Source of the lanes' places: PTX ISA, mma.m16n8k16.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/core/dtype.h"

namespace lockstep::cuda {

/// A matrix [outputs, columns] of 16-bit elements in packed form.
struct FragmentPacking {
  int64_t outputs = 0;
  int64_t columns = 0;

  int64_t tiles() const { return (outputs + 15) / 16; }
  int64_t k_steps() const { return (columns + 15) / 16; }
  int64_t elements() const { return tiles() * k_steps() * 256; }
  /// The place of an element.
  int64_t index(int64_t output, int64_t column) const;
  /// Writes rows [first, first + rows) of the matrix, row-major in `src`. The caller zeroes `dst` before the first.
  void pack(int64_t first, std::span<const uint16_t> src, std::span<uint16_t> dst) const;
};

}  // namespace lockstep::cuda
