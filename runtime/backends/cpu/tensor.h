// A tensor of a step: rows of columns at a fixed address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/core/shape.h"

namespace lockstep::cpu {

/// [planes, rows, columns]. Elements of a row are dense; rows are `stride` bytes apart. Borrows the memory.
struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t planes = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t stride = 0;                    // bytes between rows
  const int64_t* rows_in_use = nullptr;  // token rows: their number in the current step; null: all
  bool packs_planes = false;             // planes have the size of the rows in use instead of `rows`

  /// The rows that the current step computes.
  int64_t used_rows() const { return rows_in_use == nullptr ? rows : *rows_in_use; }
  int64_t element_size() const { return static_cast<int64_t>(size_of(dtype)); }
  int64_t plane_stride() const { return (packs_planes ? used_rows() : rows) * stride; }
  Tensor plane(int64_t index) const {
    Tensor one = *this;
    one.data += index * plane_stride();
    one.planes = 1;
    return one;
  }
  std::byte* at(int64_t row, int64_t column = 0) const { return data + row * stride + column * element_size(); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  ConstRow const_row(int64_t row, int64_t column = 0) const { return {at(row, column), dtype}; }
  Row row(int64_t row_index, int64_t column = 0) const { return {at(row_index, column), dtype}; }
};

}  // namespace lockstep::cpu
