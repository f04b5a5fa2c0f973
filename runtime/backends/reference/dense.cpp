// Lookups, matrix products, sums and copies.
#include <algorithm>

#include "runtime/backends/aten/operations.h"
#include "runtime/backends/reference/int8_rows.h"
#include "runtime/backends/reference/kernels.h"
#include "runtime/backends/reference/tree_sum.h"

namespace lockstep::reference {
namespace {

aten::ConstMatrix matrix(const Tensor& t) { return aten::dense(t.floats(), t.rows(), t.columns()); }

/// dst = x · wᵀ for one leaf; `int8_width` above 0: x in 8 bits, in groups of that many columns.
Result<void> multiply(aten::ConstMatrix x, aten::ConstMatrix w, int64_t int8_width, aten::Matrix dst) {
  if (int8_width == 0) return aten::multiply_transposed(x, w, dst);
  const std::vector<float> rows = quantised_rows(x, int8_width);
  return aten::multiply_transposed(aten::dense(rows.data(), x.rows, x.columns), w, dst);
}

/// The partial products of one rank's leaves: leaf `i` of the tree is the rank's columns [(i − first) · block, …); the
/// last one may be narrower.
struct BlockProduct {
  aten::ConstMatrix x;
  aten::ConstMatrix w;
  int64_t first = 0;  // the rank's first leaf
  int64_t block = 0;
  int64_t int8_width = 0;  // as in `multiply`

  Result<std::vector<float>> leaf(int64_t i) const {
    const int64_t begin = (i - first) * block;
    const int64_t width = std::min(block, x.columns - begin);
    std::vector<float> product(static_cast<size_t>(x.rows * w.rows));
    const aten::Matrix dst = aten::dense(product.data(), x.rows, w.rows);
    LOCKSTEP_TRY_VOID(multiply({x.data + begin, x.rows, width, x.row_stride},
                               {w.data + begin, w.rows, width, w.row_stride}, int8_width, dst));
    return product;
  }
};

/// Row `index + offset` of a table for every index; outside it, row `otherwise` or zeros.
void look_up(const Tensor& index, const Tensor& table, int64_t offset, const Tensor& dst, int64_t otherwise = -1) {
  const int64_t width = table.columns();
  for (int64_t t = 0; t < index.elements(); ++t) {
    int64_t row = index.ints()[t] + offset;
    if (row < 0 || row >= table.type.shape[0]) row = otherwise;
    float* dst_row = dst.floats() + t * width;
    if (row >= 0) {
      std::copy_n(table.floats() + row * width, width, dst_row);
    } else {
      std::fill_n(dst_row, width, 0.0f);
    }
  }
}

}  // namespace

Result<void> embedding(const Call& call, const Environment&) {
  look_up(call.operands[0], call.operands[1], -call.node.integer("first_row"), *call.result);
  return ok();
}

Result<void> lookup(const Call& call, const Environment&) {
  look_up(call.operands[0], call.operands[1], call.node.integer("offset"), *call.result,
          call.node.integer_or("otherwise", -1));
  return ok();
}

Result<void> linear(const Call& call, const Environment&) {
  const Tensor& result = *call.result;
  const aten::Matrix dst = aten::dense(result.floats(), result.rows(), result.columns());
  LOCKSTEP_TRY_VOID(multiply(matrix(call.operands[0]), matrix(call.operands[1]), call.int8_widths[1], dst));
  if (call.operands.size() < 3) return ok();
  const float* bias = call.operands[2].floats();
  for (int64_t t = 0; t < dst.rows; ++t) {
    for (int64_t n = 0; n < dst.columns; ++n) dst.data[t * dst.columns + n] += bias[n];
  }
  return ok();
}

Result<void> linear_blocks(const Call& call, const Environment& environment) {
  const BlockSplit& split = call.sum->split;
  const BlockProduct product{matrix(call.operands[0]), matrix(call.operands[1]), split.range_of(environment.rank).begin,
                             call.node.integer("block"), call.int8_widths[1]};
  float* dst = call.result->floats();
  for (const Range& root : split.roots_of(environment.rank)) {
    LOCKSTEP_TRY(const std::vector<float> sum, sum_leaves(root, [&](int64_t i) { return product.leaf(i); }));
    dst = std::copy(sum.begin(), sum.end(), dst);
  }
  return ok();
}

Result<void> head_linear(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const Tensor& w = call.operands[1];
  const Tensor& result = *call.result;
  const int64_t heads = call.node.integer("heads"), outputs = w.rows() / heads;
  for (int64_t head = 0; head < heads; ++head) {
    LOCKSTEP_TRY_VOID(
        aten::multiply_transposed({x.floats() + head * w.columns(), x.rows(), w.columns(), x.columns()},
                                  aten::dense(w.floats() + head * outputs * w.columns(), outputs, w.columns()),
                                  {result.floats() + head * outputs, result.rows(), outputs, result.columns()}));
  }
  return ok();
}

Result<void> add(const Call& call, const Environment&) {
  const float* x = call.operands[0].floats();
  const float* y = call.operands[1].floats();
  const int64_t period = call.operands[1].elements();  // one row y is added to every row
  float* dst = call.result->floats();
  for (int64_t i = 0; i < call.result->elements(); ++i) dst[i] = x[i] + y[i % period];
  return ok();
}

Result<void> multiply(const Call& call, const Environment&) {
  const float* x = call.operands[0].floats();
  const float* y = call.operands[1].floats();
  const int64_t period = call.operands[1].elements();  // one row y, or one factor, for every row
  float* dst = call.result->floats();
  for (int64_t i = 0; i < call.result->elements(); ++i) dst[i] = x[i] * y[i % period];
  return ok();
}

Result<void> join_partials(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const Tensor& y = call.operands[1];
  float* dst = call.result->floats();
  for (int64_t r = 0; r < x.rows(); ++r) {
    dst = std::copy_n(x.floats() + r * x.columns(), x.columns(), dst);
    dst = std::copy_n(y.floats() + r * y.columns(), y.columns(), dst);
  }
  return ok();
}

Result<void> join_heads(const Call& call, const Environment&) {
  const int64_t heads = call.node.integer("heads");
  std::byte* dst = call.result->memory;
  for (int64_t part = 0; part < call.result->rows() * heads; ++part) {
    for (const Tensor& from : call.operands) {
      const size_t bytes = static_cast<size_t>(from.columns() / heads) * size_of(from.held);
      dst = std::copy_n(from.memory + static_cast<size_t>(part) * bytes, bytes, dst);
    }
  }
  return ok();
}

Result<void> scale(const Call& call, const Environment&) {
  const auto factor = static_cast<float>(call.node.number("factor"));
  const float* x = call.operands[0].floats();
  std::transform(x, x + call.result->elements(), call.result->floats(), [=](float v) { return v * factor; });
  return ok();
}

Result<void> columns(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const int64_t begin = call.node.integer("begin");
  const int64_t width = call.result->columns();
  const size_t size = size_of(x.held);
  for (int64_t r = 0; r < x.rows(); ++r) {
    const std::byte* src = x.memory + static_cast<size_t>(r * x.columns() + begin) * size;
    std::copy_n(src, static_cast<size_t>(width) * size, call.result->memory + static_cast<size_t>(r * width) * size);
  }
  return ok();
}

Result<void> first_rows(const Call& call, const Environment&) {
  std::copy_n(call.operands[0].ints(), call.result->elements(), call.result->ints());
  return ok();
}

Result<void> select_rows(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const Tensor& rows = call.operands[1];
  const size_t row_bytes = static_cast<size_t>(x.columns()) * size_of(x.held);
  for (int64_t s = 0; s < rows.elements(); ++s) {
    const int64_t row = rows.ints()[s];
    LOCKSTEP_CHECK(row < x.rows(), row, x.rows());
    std::byte* dst = call.result->memory + static_cast<size_t>(s) * row_bytes;
    if (row < 0) {
      std::fill_n(dst, row_bytes, std::byte{0});
    } else {
      std::copy_n(x.memory + static_cast<size_t>(row) * row_bytes, row_bytes, dst);
    }
  }
  return ok();
}

}  // namespace lockstep::reference
