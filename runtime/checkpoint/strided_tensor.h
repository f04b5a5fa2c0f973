// Stored tensors as matrices: one expert of a stack, channels without an axis, rows of blocks as bytes. Private to this
// folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/gguf_tensor.h"
#include "runtime/checkpoint/stored_names.h"
#include "runtime/checkpoint/tensor_view.h"
#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// A stored tensor without its experts axis: the remaining dimensions, and the expert's offset.
struct Strided {
  std::vector<int64_t> dims, strides;
  int64_t offset = 0;  // bytes
};

/// Which tensor of a stack.
struct StackPlace {
  int64_t experts = 0;  // of the stack
  int64_t expert = 0;
  bool is_bias = false;  // one dimension less
};

/// The error of a tensor with another shape than `expected`.
Error wrong_shape(const std::string& name, const TensorEntry& entry, std::string_view expected);

/// One expert of a stack of `rank` dimensions.
Result<Strided> expert_of(const std::string& name, const TensorEntry& entry, size_t rank, StackPlace place);

/// The stored tensor of `form` as a matrix or a vector; without strides if it has no elements.
Result<Strided> matrix_of(const std::string& name, const TensorEntry& entry, const StoredForm& form, StackPlace place);

/// The entry of a tensor in blocks as that of the bytes of its rows.
TensorEntry as_bytes(TensorEntry entry, const GgufFormat& blocks);

/// The view with each group of rows, a head's, transposed.
TensorView transposed_groups(TensorView view);

}  // namespace lockstep::checkpoint
