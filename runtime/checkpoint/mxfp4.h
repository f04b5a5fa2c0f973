// Weights in the microscaling format mxfp4 (OCP Microscaling Formats 1.0; gpt-oss): rows of blocks of 32 elements, each
// element a 4-bit float (E2M1), each block with one 8-bit exponent (E8M0):
//
//   element = value(nibble) · 2^(scale − 127)      two elements a byte, the low nibble first
//
// Private to this folder.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/checkpoint/stored_files.h"
#include "runtime/checkpoint/tensor_view.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/dtype.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

constexpr int64_t kMxfp4Block = 32;       // elements
constexpr int64_t kMxfp4BlockBytes = 16;  // without the scale

/// Reads a part of a matrix [rows, columns] whose nibbles are `blocks` u8 [rows, columns / 2] and whose exponents are
/// `scales` u8 [rows, columns / 32], row-major, into `dst` as `dtype`. Exact in every floating-point type but f16, to
/// which it is rounded. Reads the bytes of whole blocks, with a few MiB of buffer. @blocking (disk)
Result<void> read_mxfp4(const StoredFiles& files, const TensorView& blocks, const TensorView& scales, Range rows,
                        Range columns, DType dtype, std::span<std::byte> dst);

}  // namespace lockstep::checkpoint
