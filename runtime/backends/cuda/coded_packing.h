// Weights in codes, packed as kernels read them (runtime/core/weight_format.h):
//
//   tile of 16 outputs │ codes: group ─► load of 1, 2 or 4 words ─► output ─► word │ scales: group ─► output │ offsets
//
// A word of 32 bits has 8 codes of 4 bits, columns 0 to 3 in the lower halves of its bytes and 4 to 7 in the upper
// ones, or 4 codes of 8 bits. A group begins with a word, except that groups of at most half a word share it. Every
// group has as many words as the widest one; what lies beyond the edges is zero. Scales keep their type; zeros take as
// many bytes as they need, minima have the type of the scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/core/column_groups.h"
#include "runtime/core/weight_format.h"

namespace lockstep::cuda {

/// A stack of equally packed matrices [outputs, groups.columns] in codes: experts, or one matrix.
struct CodedPacking {
  int64_t outputs = 0;
  ColumnGroups groups;
  WeightFormat format;
  int64_t parts = 1;

  /// Of a part.
  int64_t tiles() const { return (outputs + kTileOutputs - 1) / kTileOutputs; }
  int64_t tile_bytes() const;
  int64_t bytes() const { return parts * tiles() * tile_bytes(); }
  /// How a tile lies in memory, as kernels see it.
  CodeLayout layout() const;
  /// Packs a tile into its `tile_bytes()`; `src` are its `rows`, at most 16. Several threads may pack tiles at once.
  void pack_tile(int64_t rows, const CodedRows& src, std::span<std::byte> dst) const;

  friend bool operator==(const CodedPacking&, const CodedPacking&) = default;
};

/// Memory for the codes of some rows, and what their groups have.
class CodedBuffer {
 public:
  CodedRows rows(const CodedPacking& packing, int64_t count);

 private:
  std::vector<uint8_t> codes_;
  std::vector<float> scales_, offsets_;
};

/// The rows of `all` from `row` on.
CodedRows rows_from(const CodedPacking& packing, const CodedRows& all, int64_t row);

/// Quantises `rows` rows of elements of `dtype`, row-major in `src`, into `dst`.
void quantise_rows(const CodedPacking& packing, DType dtype, int64_t rows, std::span<const std::byte> src,
                   const CodedRows& dst);

/// Quantises and packs the matrices, row-major elements of `dtype` in `src`.
std::vector<std::byte> pack_quantised(const CodedPacking& packing, DType dtype, std::span<const std::byte> src);

}  // namespace lockstep::cuda
