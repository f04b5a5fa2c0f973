// Weights as the fragments of a tensor core, so that 16 bytes of a lane go from memory into an operand.
//
//   tile of 16 outputs ─► step of 16 columns ─► lane 4·g + t ─► (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
//                                                              (g, 2t+8) (g, 2t+9) (g+8, 2t+8) (g+8, 2t+9)
//
// Elements of f32, which no tensor core multiplies exactly, lie as [tile][column][16 outputs]. Outputs and columns
// beyond the edges, and beyond the end of a leaf, are zeros. Source of the lanes' places: PTX ISA, mma.m16n8k16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/core/dtype.h"

namespace lockstep::cuda {

/// A matrix [outputs, columns] in packed form.
struct FragmentPacking {
  DType dtype = DType::kBFloat16;
  int64_t outputs = 0;
  int64_t columns = 0;
  int64_t leaf = 1;  // columns that are padded to whole steps by themselves; `columns` for a plain product

  int64_t tiles() const { return (outputs + 15) / 16; }
  /// Steps of a leaf; the last leaf may be narrower.
  int64_t steps_of_leaf() const { return (leaf + 15) / 16; }
  /// Steps of a tile.
  int64_t k_steps() const { return columns / leaf * steps_of_leaf() + (columns % leaf + 15) / 16; }
  int64_t tile_bytes() const { return k_steps() * 256 * static_cast<int64_t>(size_of(dtype)); }
  int64_t bytes() const { return tiles() * tile_bytes(); }
  /// The place of an element.
  int64_t index(int64_t output, int64_t column) const;
  /// Packs a tile into its `tile_bytes()`; `src` are its rows, row-major. Several threads may pack tiles at once.
  void pack_tile(int64_t tile, std::span<const std::byte> src, std::span<std::byte> dst) const;
  /// Packs the matrix, row-major in `src`, into its `bytes()`.
  void pack(std::span<const std::byte> src, std::span<std::byte> dst) const;

  friend bool operator==(const FragmentPacking&, const FragmentPacking&) = default;
};

}  // namespace lockstep::cuda
