// The few operations that backends take from libtorch, over plain f32 memory. No ATen type is named here, so whoever
// includes this header pays nothing for libtorch; whoever links it loads libtorch_cpu (about a quarter of a second).
#pragma once

#include <cstdint>

#include "runtime/core/result.h"

namespace lockstep::aten {

/// A matrix f32 [rows, columns] that somebody else owns; rows are `row_stride` elements apart, columns are adjacent.
struct ConstMatrix {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;
};

/// The same, to be written.
struct Matrix {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;

  operator ConstMatrix() const { return {data, rows, columns, row_stride}; }
};

/// A dense matrix.
inline ConstMatrix dense(const float* data, int64_t rows, int64_t columns) { return {data, rows, columns, columns}; }
inline Matrix dense(float* data, int64_t rows, int64_t columns) { return {data, rows, columns, columns}; }

/// Threads that the operations of this process may use, the calling one included; at least 1.
Result<void> set_threads(int threads);

/// dst [T, N] = x [T, K] · wᵀ, w [N, K]. Operands do not overlap dst. The order of the sums over K is libtorch's and
/// may change with the shape. Sums over no columns are zero.
Result<void> multiply_transposed(ConstMatrix x, ConstMatrix w, Matrix dst);

/// dst [T, N] = x [T, K] · y [K, N].
Result<void> multiply(ConstMatrix x, ConstMatrix y, Matrix dst);

/// dst [R, N] = softmax of each row of x [R, N].
Result<void> softmax_rows(ConstMatrix x, Matrix dst);

/// dst [R, N] = x / (1 + e^−x).
Result<void> silu(ConstMatrix x, Matrix dst);

/// Two forms of the Gaussian error linear unit (Hendrycks and Gimpel, 2016).
enum class GeluForm { kExact, kTanh };

/// dst [R, N] = x · Φ(x), with erf or with the approximation by tanh.
Result<void> gelu(ConstMatrix x, GeluForm form, Matrix dst);

}  // namespace lockstep::aten
