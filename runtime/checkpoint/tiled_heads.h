// Columns by value head of linear attention, in the order of GGUF files.
//
//   a directory: the value heads of each key head             0 1 2 | 3 4 5
//   GGUF: the first one of each key head, then the second …   0 3 | 1 4 | 2 5
//
// Private to this folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/coded_tensor.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/checkpoint/stored_files.h"
#include "runtime/checkpoint/tensor_view.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

struct TiledHeads {
  int64_t key_heads = 1;
  int64_t shared = 1;  // value heads of a key head
  int64_t width = 1;   // columns of a value head

  /// The column of the file that holds `column`.
  int64_t place_of(int64_t column) const {
    const int64_t head = column / width;
    return (head % shared * key_heads + head / shared) * width + column % width;
  }
};

/// The order of the columns of the matrix `entry`. Fails with `kInvalidArgument` if it has other columns than the value
/// heads.
Result<TiledHeads> tiled_heads(const std::string& name, const TensorEntry& entry, const DeltaRuleSpec& rule);

/// Reads a part of `view` as `read_view`, whose columns have the order of `heads` in the file. @blocking (disk)
Result<void> read_tiled(const StoredFiles& files, const TensorView& view, const TiledHeads& heads, Range rows,
                        Range columns, DType dtype, std::span<std::byte> dst);

/// Announces such a read.
void expect_tiled(const StoredFiles& files, const TensorView& view, const TiledHeads& heads, Range rows, Range columns);

/// `stored` with its columns in the order of a directory. Fails with `kUnsupported` if a group of columns belongs to
/// two heads.
Result<std::shared_ptr<const CodedTensor>> with_tiled_columns(const std::string& name, const TensorEntry& entry,
                                                              std::shared_ptr<const CodedTensor> stored,
                                                              const TiledHeads& heads);

}  // namespace lockstep::checkpoint
