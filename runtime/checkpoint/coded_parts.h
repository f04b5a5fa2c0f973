// The stored tensors of a matrix in codes: words, scales, zeros. Private to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/stored_files.h"
#include "runtime/checkpoint/strided_tensor.h"
#include "runtime/checkpoint/tensor_view.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"
#include "runtime/core/weight_format.h"

namespace lockstep::checkpoint {

/// Bytes of the buffers of one read, about.
inline constexpr int64_t kCodedBufferBytes = int64_t{1} << 20;

/// A dense tensor as a matrix [rows, columns]; one of no dimensions is [1, 1], a vector is [rows, 1].
struct CodedPart {
  std::string name;  // in the file
  std::string type;  // "I32", "F16"
  TensorView bytes;  // its bytes [rows, columns · size]
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t size = 1;  // bytes of an element

  int64_t elements() const { return rows * columns; }
};

/// "[runtime/checkpoint] cannot read tensor NAME of FILE: found …, expected …; …"; of kind `kInvalidArgument`.
Error wrong_part(const CodedPart& part, std::string_view found, std::string_view expected);

/// The tensor `name` of `files`, or that of one expert if it is a `stack`. Fails with `kNotFound` for a missing one
/// ("expected it beside `beside`"), with `kInvalidArgument` for other types than `types`, more than two dimensions, or
/// a stack of another number of experts.
Result<CodedPart> find_part(const StoredFiles& files, const std::string& name, std::span<const std::string_view> types,
                            std::string_view beside, const std::optional<StackPlace>& stack = std::nullopt);

/// Fails unless `part` has that shape.
Result<void> require_shape(const CodedPart& part, int64_t rows, int64_t columns);

/// Reads bytes of rows and columns of `part`, row-major.
Result<void> read_part(const StoredFiles& files, const CodedPart& part, Range rows, Range columns,
                       std::vector<std::byte>& dst);

/// Reads numbers of `part` in float32, row-major: F32, BF16, F16, e4m3 or exponents (U8, e8m0). Fails with
/// `kInvalidArgument` if one is a NaN or infinite.
Result<void> read_scales(const StoredFiles& files, const CodedPart& part, Range rows, Range columns,
                         std::vector<float>& dst);

/// All numbers of a small tensor of integers (I32 or I64).
Result<std::vector<int64_t>> read_integers(const StoredFiles& files, const CodedPart& part);

/// The ScaleType that keeps the numbers of `part`; float32 for e4m3.
ScaleType scale_type_of(const CodedPart& part);

/// A number of 32 bits at `words`, as files have them.
uint32_t word_at(const std::byte* words);

}  // namespace lockstep::checkpoint
