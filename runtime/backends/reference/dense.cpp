// Operations on rows: embedding, matrix products, norms and copies.
#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/backends/aten/operations.h"
#include "runtime/backends/reference/kernels.h"

namespace lockstep::reference {
namespace {

aten::ConstMatrix matrix(const Tensor& t) { return aten::dense(t.floats(), t.rows(), t.columns()); }

void add_to(std::vector<float>& sum, const std::vector<float>& term) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
}

/// The partial products of one rank's leaves: leaf `i` of the tree is the rank's columns
/// [(i − first) · block, …), the last one possibly narrower.
struct BlockProduct {
  aten::ConstMatrix x;
  aten::ConstMatrix w;
  int64_t first = 0;  // the rank's first leaf
  int64_t block = 0;

  Result<std::vector<float>> leaf(int64_t i) const {
    const int64_t begin = (i - first) * block;
    const int64_t width = std::min(block, x.columns - begin);
    std::vector<float> product(static_cast<size_t>(x.rows * w.rows));
    LOCKSTEP_TRY_VOID(aten::multiply_transposed({x.data + begin, x.rows, width, x.row_stride},
                                                {w.data + begin, w.rows, width, w.row_stride},
                                                aten::dense(product.data(), x.rows, w.rows)));
    return product;
  }

  /// The sum over a tree node: left half plus right half, the left one a power of two wide.
  Result<std::vector<float>> node(Range leaves) const {
    if (leaves.size() == 1) return leaf(leaves.begin);
    const auto half = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(leaves.size())) / 2);
    LOCKSTEP_TRY(std::vector<float> left, node({leaves.begin, leaves.begin + half}));
    LOCKSTEP_TRY(const std::vector<float> right, node({leaves.begin + half, leaves.end}));
    add_to(left, right);
    return left;
  }
};

}  // namespace

Result<void> embedding(const Call& call, const Environment&) {
  const int32_t* ids = call.operands[0].ints();
  const Tensor& table = call.operands[1];
  const int64_t width = table.columns();
  const int64_t first_row = call.node.integer("first_row");
  for (int64_t t = 0; t < call.operands[0].elements(); ++t) {
    const int64_t row = ids[t] - first_row;
    float* dst = call.result->floats() + t * width;
    if (0 <= row && row < table.type.shape[0]) {
      std::copy_n(table.floats() + row * width, width, dst);
    } else {
      std::fill_n(dst, width, 0.0f);
    }
  }
  return ok();
}

Result<void> linear(const Call& call, const Environment&) {
  const Tensor& result = *call.result;
  const aten::Matrix dst = aten::dense(result.floats(), result.rows(), result.columns());
  LOCKSTEP_TRY_VOID(aten::multiply_transposed(matrix(call.operands[0]), matrix(call.operands[1]), dst));
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
                             call.node.integer("block")};
  float* dst = call.result->floats();
  for (const Range& root : split.roots_of(environment.rank)) {
    LOCKSTEP_TRY(const std::vector<float> sum, product.node(root));
    dst = std::copy(sum.begin(), sum.end(), dst);
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

Result<void> rms_norm(const Call& call, const Environment&) {
  const Tensor& x = call.operands[0];
  const float* weight = call.operands[1].floats();
  const int64_t width = x.columns();
  const auto epsilon = static_cast<float>(call.node.number("epsilon"));
  for (int64_t r = 0; r < x.rows(); ++r) {
    const float* src = x.floats() + r * width;
    float* dst = call.result->floats() + r * width;
    float squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += src[i] * src[i];
    const float root = std::sqrt(squares / static_cast<float>(width) + epsilon);
    for (int64_t i = 0; i < width; ++i) dst[i] = weight[i] * rounded(src[i] / root, x.type.dtype);
  }
  return ok();
}

Result<void> gated_activation(const Call& call, const Environment&) {
  LOCKSTEP_CHECK(call.node.text("activation") == "silu", call.node.text("activation"));
  const Tensor& gate = call.operands[0];
  const bool packed = call.operands.size() == 1;  // [gate | up]
  const int64_t rows = call.result->rows();
  const int64_t width = call.result->columns();
  const float* up = packed ? gate.floats() + width : call.operands[1].floats();
  const int64_t stride = gate.columns();
  float* dst = call.result->floats();
  LOCKSTEP_TRY_VOID(aten::silu({gate.floats(), rows, width, stride}, aten::dense(dst, rows, width)));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) dst[r * width + i] *= up[r * stride + i];
  }
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
