#include "runtime/backends/aten/operations.h"

// Tensor.h first: the generated *_ops.h headers need it and do not include it. They cost a third of <ATen/ATen.h>.
#include <ATen/core/Tensor.h>
//
#include <ATen/Parallel.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/silu_ops.h>

#include <array>

#include "runtime/backends/aten/aten_status.h"
#include "runtime/core/check.h"

namespace lockstep::aten {
namespace {

at::Tensor strided(float* data, std::array<int64_t, 2> sizes, std::array<int64_t, 2> strides) {
  LOCKSTEP_CHECK(strides[0] >= 0 && strides[1] >= 0, strides[0], strides[1]);  // from_blob would end the process
  return at::from_blob(data, sizes, strides, at::TensorOptions().dtype(at::kFloat));
}

at::Tensor tensor(Matrix m) { return strided(m.data, {m.rows, m.columns}, {m.row_stride, 1}); }

// libtorch has no tensors over const memory; operands are only read.
at::Tensor tensor(ConstMatrix m) { return strided(const_cast<float*>(m.data), {m.rows, m.columns}, {m.row_stride, 1}); }

at::Tensor transposed(ConstMatrix m) {
  return strided(const_cast<float*>(m.data), {m.columns, m.rows}, {1, m.row_stride});
}

}  // namespace

Result<void> set_threads(int threads) {
  LOCKSTEP_CHECK(threads >= 1, threads);
  return guarded("set_num_threads", [&] { at::set_num_threads(threads); });
}

Result<void> multiply_transposed(ConstMatrix x, ConstMatrix w, Matrix dst) {
  LOCKSTEP_CHECK(x.columns == w.columns && dst.rows == x.rows && dst.columns == w.rows, x.rows, x.columns, w.rows,
                 w.columns, dst.rows, dst.columns);
  return guarded("mm", [&] {
    at::Tensor out = tensor(dst);
    at::_ops::mm_out::call(tensor(x), transposed(w), out);
  });
}

Result<void> multiply(ConstMatrix x, ConstMatrix y, Matrix dst) {
  LOCKSTEP_CHECK(x.columns == y.rows && dst.rows == x.rows && dst.columns == y.columns, x.rows, x.columns, y.rows,
                 y.columns, dst.rows, dst.columns);
  return guarded("mm", [&] {
    at::Tensor out = tensor(dst);
    at::_ops::mm_out::call(tensor(x), tensor(y), out);
  });
}

Result<void> softmax_rows(ConstMatrix x, Matrix dst) {
  LOCKSTEP_CHECK(dst.rows == x.rows && dst.columns == x.columns, x.rows, x.columns, dst.rows, dst.columns);
  return guarded("softmax", [&] {
    at::Tensor out = tensor(dst);
    at::_ops::_softmax_out::call(tensor(x), /*dim=*/1, /*half_to_float=*/false, out);
  });
}

Result<void> silu(ConstMatrix x, Matrix dst) {
  LOCKSTEP_CHECK(dst.rows == x.rows && dst.columns == x.columns, x.rows, x.columns, dst.rows, dst.columns);
  return guarded("silu", [&] {
    at::Tensor out = tensor(dst);
    at::_ops::silu_out::call(tensor(x), out);
  });
}

Result<void> gelu(ConstMatrix x, GeluForm form, Matrix dst) {
  LOCKSTEP_CHECK(dst.rows == x.rows && dst.columns == x.columns, x.rows, x.columns, dst.rows, dst.columns);
  return guarded("gelu", [&] {
    at::Tensor out = tensor(dst);
    at::_ops::gelu_out::call(tensor(x), form == GeluForm::kTanh ? "tanh" : "none", out);
  });
}

}  // namespace lockstep::aten
