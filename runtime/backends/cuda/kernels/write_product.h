// The last step of every product: an element's bias, its rounding, its place.
#pragma once

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {

/// Writes the sum of an output of a row; nothing beyond the outputs.
template <typename Rows, typename Parameters>
LOCKSTEP_DEVICE void write_product(const Parameters& p, int root, int row, int output, float value) {
  using Element = typename Rows::Element;
  if (output >= p.outputs) return;
  if (p.bias != nullptr) value = plus(value, Rows::read(static_cast<const Element*>(p.bias)[output]));
  const int64_t at = root * p.y_plane + row * p.y_stride + output;
  if (p.is_float != 0) {
    static_cast<float*>(p.y)[at] = value;
  } else {
    static_cast<Element*>(p.y)[at] = Rows::write(value);
  }
}

}  // namespace lockstep::cuda
