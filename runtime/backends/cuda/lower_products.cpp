// Lowering of products with weights of elements.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cuda/few_rows.h"
#include "runtime/backends/cuda/lowering.h"
#include "runtime/backends/cuda/product_form.h"
#include "runtime/backends/cuda/sum_parts.h"

namespace lockstep::cuda {
namespace {

/// The bias of a plain product; 0: none.
const void* bias_of(const graph::Node& node, const Tensor* bias) {
  return node.op == graph::Op::kLinear && node.operands.size() > 2 ? bias->data() : nullptr;
}

}  // namespace

ProductParameters Lowering::product_into(const Tensor& y, uint64_t weights, const FragmentPacking& matrix,
                                         std::span<const SumPart> parts) {
  ProductParameters product{};
  product.weights = reinterpret_cast<const void*>(weights);
  product.y = y.data();
  product.parts = table(parts);
  product.y_stride = y.stride;
  product.y_plane = y.plane;
  product.rows = rows_of(y);
  product.outputs = static_cast<int32_t>(matrix.outputs);
  product.k_steps = static_cast<int32_t>(matrix.k_steps());
  product.part_count = static_cast<int32_t>(parts.size());
  product.is_float = y.dtype == DType::kFloat32;
  return product;
}

ProductParameters Lowering::product_of(const Tensor& x, const Tensor& y, uint64_t weights,
                                       const FragmentPacking& matrix, std::span<const SumPart> parts) {
  ProductParameters product = product_into(y, weights, matrix, parts);
  product.x = x.data();
  product.x_stride = x.stride;
  product.rows = rows_of(x);
  return product;
}

Result<void> Lowering::lower_product(const Node& node) {
  const Packing packing = packing_of(graph_, node, 1);
  LOCKSTEP_TRY(const uint64_t weights, weight(node, 1, packing));
  const FragmentPacking& matrix = std::get<StackedPacking>(packing).matrix;
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const std::vector<SumPart> parts = parts_of_product(graph_, node);
  if (!fits_stack(parts)) {
    return unsupported(
        fmt::format("found {} partial sums open at once, expected at most {}", parts.size(), kMostLevels));
  }
  if (options_.uses_blas && multiply_by_library(node, parts)) return ok();
  const ProductForm form = product_form(
      {.dtype = x.dtype, .rows = x.rows, .outputs = matrix.outputs, .address = x.address, .stride = x.stride}, parts);
  ProductParameters parameters = product_of(x, y, weights, matrix, parts);
  parameters.bias = bias_of(node, node.operands.size() > 2 ? &operand(node, 2) : nullptr);
  parameters.levels = form.levels;
  if (x.rows == 0 || parts.empty() || matrix.outputs == 0) return ok();
  emit(typed(form.kernel, x.dtype), parameters, form.blocks, {.shared_bytes = form.shared_bytes});
  return ok();
}

Result<void> Lowering::lower_head_linear(const Node& node) {
  const Packing packing = packing_of(graph_, node, 1);
  LOCKSTEP_TRY(const uint64_t weights, weight(node, 1, packing));
  const auto& heads = std::get<StackedPacking>(packing);
  const FragmentPacking& matrix = heads.matrix;
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const std::vector<SumPart> parts = plain_parts(matrix.columns);
  const ProductForm form = product_form({.dtype = x.dtype,
                                         .rows = x.rows,
                                         .outputs = matrix.outputs,
                                         .address = x.address,
                                         .stride = x.stride,
                                         .head_columns = matrix.columns},
                                        parts);
  ProductHeadsParameters parameters{.first = product_of(x, y, weights, matrix, parts),
                                    .x_columns = matrix.columns,
                                    .weights = matrix.bytes() / x.element_size(),
                                    .blocks = form.blocks};
  parameters.first.levels = form.levels;
  emit(typed(form.kernel, x.dtype), parameters, x.rows > 0 ? heads.parts * form.blocks : 0,
       {.shared_bytes = form.shared_bytes});
  return ok();
}

/// Gives a product of many rows to cuBLASLt, a root at a time; false: it stays here.
bool Lowering::multiply_by_library(const Node& node, const std::vector<SumPart>& parts) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const Tensor* bias = node.op == graph::Op::kLinear && node.operands.size() > 2 ? &operand(node, 2) : nullptr;
  const WeightForm* rows = layout_.form(graph_.value(node.operands[1]).name, Packing{});
  const bool has_types = y.dtype == x.dtype || (y.dtype == DType::kFloat32 && bias == nullptr);
  if (!is_product_of_many_rows(graph_, node) || rows == nullptr || !has_types || y.columns == 0) return false;
  const int64_t columns = graph_.value(node.operands[1]).type.shape[1];
  int64_t begin = 0;
  for (const SumPart& part : parts) {
    if (part.root < 0) continue;
    const int64_t end = std::min<int64_t>(part.end_column, columns);
    plan_.launches.push_back({.kernel = "cublasLt", .shape = {}, .parameters = {}, .node = 0});
    plan_.launches.back().matmul =
        cu::MatmulShape{.dtype = x.dtype,
                        .result = y.dtype,
                        .rows = x.rows,
                        .outputs = y.columns,
                        .columns = end - begin,
                        .x = {x.address + static_cast<uint64_t>(begin * x.element_size())},
                        .w = {bases_.weights + static_cast<uint64_t>(rows->offset + begin * x.element_size())},
                        .y = {y.address + static_cast<uint64_t>(part.root * y.plane * y.element_size())},
                        .bias = {bias == nullptr ? 0 : bias->address},
                        .x_stride = x.stride,
                        .w_stride = columns,
                        .y_stride = y.stride};
    begin = end;
  }
  return true;
}

}  // namespace lockstep::cuda
