// The sizes of a tensor's dimensions, outermost first. Host tensors are row-major and dense.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/dtype.h"

namespace lockstep {

/// Dimensions, outermost first; `{}` is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  size_t rank() const { return dims_.size(); }
  int64_t operator[](size_t axis) const {
    LOCKSTEP_CHECK(axis < dims_.size(), axis, dims_.size());
    return dims_[axis];
  }
  const std::vector<int64_t>& dims() const { return dims_; }

  /// The product of the dimensions; 1 for a scalar.
  int64_t elements() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<int64_t> dims_;
};

/// "[4,576]"; "[]" for a scalar.
std::string to_string(const Shape& shape);

/// Element type and shape of a tensor.
struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;

  int64_t bytes() const { return shape.elements() * static_cast<int64_t>(size_of(dtype)); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// "bf16[4,576]".
std::string to_string(const TensorType& type);

}  // namespace lockstep
