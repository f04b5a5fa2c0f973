// Weights in the microscaling format mxfp4 (OCP Microscaling Formats 1.0; gpt-oss). A row consists of blocks of 32
// elements. An element is a 4-bit float (E2M1); a block has one 8-bit exponent (E8M0):
//
//   element = value(nibble) · 2^(scale − 127)      two elements per byte, the low nibble first
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

/// Reads a part of a matrix [rows, columns], row-major, into `dst` as `dtype`. Its nibbles are
/// `blocks` u8 [rows, columns / 2], its exponents `scales` u8 [rows, columns / 32]. Exact for all floating-point types
/// except f16, which is rounded. Reads whole blocks, with a few MiB of buffer. @blocking (disk)
Result<void> read_mxfp4(const StoredFiles& files, const TensorView& blocks, const TensorView& scales, Range rows,
                        Range columns, DType dtype, std::span<std::byte> dst);

}  // namespace lockstep::checkpoint
