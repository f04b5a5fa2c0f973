// The layout of a matrix in a file, and reading a part of it.
//
// Element (row, column) lies at
//
//   offset + size · (row / group · group_stride + row mod group · row_stride + column · column_stride)
//
// and where groups form sets, number s = row / group of them at s / set · set_stride + s mod set · group_stride.
// This covers every layout on the hub: rows or columns of a fused tensor, transposed weights (GPT-2's Conv1D), every
// other column (gpt-oss), alternating q, k and v of each head (GPT-NeoX, BLOOM), one expert of a stack, strided torch
// tensors, alternating halves of each head (GGUF). Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "runtime/checkpoint/stored_files.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/dtype.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// A matrix [rows, columns] inside a file; a vector is a matrix of one column.
struct TensorView {
  std::filesystem::path file;
  DType dtype = DType::kFloat32;  // as stored; u8 is not converted
  int64_t offset = 0;             // of element (0, 0), in bytes
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t group = 1;         // rows, at least 1
  int64_t group_stride = 0;  // elements, like the next two
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  int64_t set = 0;  // groups; 0: they form no sets
  int64_t set_stride = 0;

  /// Where `row` begins, in elements after the offset.
  int64_t place_of(int64_t row) const {
    const int64_t number = row / group, in_group = row % group * row_stride;
    if (set == 0) return number * group_stride + in_group;
    return number / set * set_stride + number % set * group_stride + in_group;
  }
};

/// Reads a part of `view`, row-major, converted to `dtype`, into `dst` (exactly its size). Contiguous elements are read
/// together, without other bytes. If every row or column has gaps (gpt-oss), the gaps between its elements are read,
/// too. Uses at most 2 MiB of buffer. @blocking (disk)
Result<void> read_view(const StoredFiles& files, const TensorView& view, Range rows, Range columns, DType dtype,
                       std::span<std::byte> dst);

/// How many neighbouring rows to read together: where columns are contiguous, enough for a page of the file per column;
/// else 1.
int64_t rows_at_once(const TensorView& view);

/// Announces a read of that part of `view` (`RandomAccessFile::expect`).
void expect_view(const StoredFiles& files, const TensorView& view, Range rows, Range columns);

}  // namespace lockstep::checkpoint
