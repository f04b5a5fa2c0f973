// Libtorch operations for backends, over plain f32 memory. The header names no ATen type, so including it costs
// nothing; linking it loads libtorch_cpu (about a quarter of a second).
#pragma once

#include <cstdint>

#include "runtime/core/result.h"

namespace lockstep::aten {

/// A borrowed matrix f32 [rows, columns]; rows are `row_stride` elements apart, columns are adjacent.
struct ConstMatrix {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;
};

/// A writable matrix.
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

/// Sets the number of threads for the operations of this process, including the calling one; at least 1.
Result<void> set_threads(int threads);

/// dst [T, N] = x [T, K] · wᵀ, w [N, K]. Operands do not overlap dst. The order of the sums over K is libtorch's and
/// may change with the shape. For K = 0 the sums are zero.
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
