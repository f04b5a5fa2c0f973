// Tensors as the kernels see them.
//
// Floating-point weights, inputs, constants and results are stored as f32, with values already rounded to their graph
// type. Kernels therefore compute in f32 and ignore types, and the executable rounds each result once. States and
// integers are stored in their own type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/core/shape.h"

namespace lockstep::reference {

/// A dense row-major tensor; borrows its memory.
struct Tensor {
  TensorType type;               // the type in the graph
  DType held = DType::kFloat32;  // the type of the elements in memory
  std::byte* memory = nullptr;

  int64_t elements() const { return type.shape.elements(); }
  /// The last dimension, and the product of the others.
  int64_t columns() const { return type.shape[type.shape.rank() - 1]; }
  int64_t rows() const {
    int64_t product = 1;
    for (size_t axis = 0; axis + 1 < type.shape.rank(); ++axis) product *= type.shape[axis];
    return product;
  }

  float* floats() const { return as<float>(DType::kFloat32); }
  int32_t* ints() const { return as<int32_t>(DType::kInt32); }
  uint8_t* bytes() const { return as<uint8_t>(DType::kUInt8); }

 private:
  template <typename T>
  T* as(DType expected) const {
    LOCKSTEP_CHECK(held == expected, to_string(held), to_string(expected));
    return reinterpret_cast<T*>(memory);
  }
};

/// The type in which a weight, input, constant or result of `dtype` is stored.
inline DType held_type(DType dtype) { return is_float(dtype) ? DType::kFloat32 : dtype; }

/// Bytes of a tensor stored in `held_type`.
inline int64_t held_bytes(const TensorType& type) {
  return type.shape.elements() * static_cast<int64_t>(size_of(held_type(type.dtype)));
}

}  // namespace lockstep::reference
