// Lowering of products with weights, and of experts.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cuda/activation_kind.h"
#include "runtime/backends/cuda/few_rows.h"
#include "runtime/backends/cuda/lowering.h"
#include "runtime/backends/cuda/product_form.h"
#include "runtime/backends/cuda/sum_parts.h"

namespace lockstep::cuda {
namespace {

int64_t tiles_of(int64_t outputs) { return (outputs + kTileOutputs - 1) / kTileOutputs; }

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

Result<void> Lowering::lower_product_int8(const Node& node) {
  const Packing packing = packing_of(graph_, node, 1);
  LOCKSTEP_TRY(const uint64_t weights, weight(node, 1, packing));
  const auto& matrix = std::get<Int8Packing>(packing);
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const GroupCut cut{.columns = static_cast<int32_t>(matrix.groups.columns),
                     .leaf = static_cast<int32_t>(matrix.groups.leaf),
                     .width = static_cast<int32_t>(matrix.groups.width),
                     .count = static_cast<int32_t>(matrix.groups.count()),
                     .words = static_cast<int32_t>(matrix.words())};
  const bool is_plain = node.op == graph::Op::kLinear;
  const std::vector<SumPart> parts =
      is_plain ? plain_int8_parts(matrix.groups)
               : block_int8_parts(BlockSplit{node.integers("blocks")}, graph_.rank, matrix.groups);
  if (!fits_stack(parts)) {
    return unsupported(
        fmt::format("found {} partial sums open at once, expected at most {}", parts.size(), kMostLevels));
  }
  const int64_t groups = x.rows * cut.count;
  auto* integers = reinterpret_cast<uint32_t*>(scratch(groups * cut.words * 4));
  auto* scales = reinterpret_cast<float*>(scratch(groups * 4));
  const QuantiseParameters quantise{
      .x = x.data(), .integers = integers, .scales = scales, .x_stride = x.stride, .rows = rows_of(x), .cut = cut};
  constexpr int64_t kWarps = kQuantiseThreads / 32;
  emit(typed("quantise", x.dtype), quantise, (groups + kWarps - 1) / kWarps);
  const ProductInt8Parameters parameters{
      .weights = reinterpret_cast<const uint32_t*>(weights),
      .weight_scales = reinterpret_cast<const float*>(weights + static_cast<uint64_t>(matrix.scale_offset())),
      .x = integers,
      .x_scales = scales,
      .bias = bias_of(node, node.operands.size() > 2 ? &operand(node, 2) : nullptr),
      .y = y.data(),
      .parts = table(std::span<const SumPart>(parts)),
      .y_stride = y.stride,
      .y_plane = y.plane,
      .rows = rows_of(x),
      .cut = cut,
      .outputs = static_cast<int32_t>(matrix.outputs),
      .part_count = static_cast<int32_t>(parts.size()),
      .is_float = y.dtype == DType::kFloat32};
  const bool has_work = x.rows > 0 && !parts.empty();
  emit(typed(x.rows <= kTileRows ? "product_int8_few" : "product_int8", x.dtype), parameters,
       has_work ? tiles_of(matrix.outputs) : 0);
  return ok();
}

void Lowering::lower_route(const Node& node) {
  const Tensor& x = operand(node, 0);
  const RouteParameters parameters{.x = x.as<float>(),
                                   .bias = node.operands.size() > 1 ? operand(node, 1).as<float>() : nullptr,
                                   .y = result(node).as<float>(),
                                   .x_stride = x.stride,
                                   .rows = rows_of(x),
                                   .experts = static_cast<int32_t>(x.columns),
                                   .chosen = static_cast<int32_t>(node.integer("chosen")),
                                   .is_over_all = node.has("over", "all"),
                                   .is_sigmoid = node.has("scores", "sigmoid"),
                                   .groups = static_cast<int32_t>(node.integer_or("groups", 1)),
                                   .kept_groups = static_cast<int32_t>(node.integer_or("kept_groups", 1)),
                                   .by_best_two = node.has("group_score", "best_two"),
                                   .least_sum = static_cast<float>(node.number_or("least_sum", 0.0)),
                                   .scale = static_cast<float>(node.number_or("scale", 1.0))};
  constexpr int64_t kWarps = kRouteThreads / 32;
  emit("route", parameters, (x.rows + kWarps - 1) / kWarps);
}

Result<void> Lowering::lower_experts(const Node& node) {
  const int64_t experts = node.integer("experts");
  const Tensor& x = operand(node, 0);
  const Tensor& route = operand(node, 1);
  const Tensor& y = result(node);
  LOCKSTEP_TRY(const uint64_t gate, weight(node, 2, packing_of(graph_, node, 2)));
  LOCKSTEP_TRY(const uint64_t up, weight(node, 3, packing_of(graph_, node, 3)));
  const Packing down_packing = packing_of(graph_, node, 4);
  LOCKSTEP_TRY(const uint64_t down, weight(node, 4, down_packing));
  const Packing inner_packing = packing_of(graph_, node, 2);
  const FragmentPacking& inner = std::get<StackedPacking>(inner_packing).matrix;
  const FragmentPacking& outer = std::get<StackedPacking>(down_packing).matrix;
  const bool has_bias = node.operands.size() > 5;
  const int64_t most = std::min(experts, graph::experts_of_row(graph_, node.operands[1]));
  auto* counts = reinterpret_cast<int32_t*>(scratch(experts * 4));
  auto* list = reinterpret_cast<int32_t*>(scratch(experts * x.rows * 4));
  auto* places = reinterpret_cast<int32_t*>(scratch(experts * x.rows * 4));
  auto* values = reinterpret_cast<void*>(scratch(x.rows * most * inner.outputs * x.element_size()));
  const ListExpertsParameters lists{.route = route.as<float>(),
                                    .slot = slot_of_padding(),
                                    .counts = counts,
                                    .list = list,
                                    .places = places,
                                    .route_stride = route.stride,
                                    .rows = rows_of(x),
                                    .first_expert = static_cast<int32_t>(node.integer("first_expert")),
                                    .experts = static_cast<int32_t>(experts)};
  emit("list_experts", lists, experts);
  const std::vector<SumPart> inner_parts = plain_parts(inner.columns);
  const bool on_inputs = node.has("routes_on", "inputs");
  const bool clamps = node.text("activation") == "clamped_swiglu";
  const ExpertsInnerParameters first{.gate = reinterpret_cast<const void*>(gate),
                                     .up = reinterpret_cast<const void*>(up),
                                     .gate_bias = has_bias ? operand(node, 5).data() : nullptr,
                                     .up_bias = has_bias ? operand(node, 6).data() : nullptr,
                                     .x = x.data(),
                                     .counts = counts,
                                     .list = list,
                                     .places = places,
                                     .y = values,
                                     .parts = table(std::span<const SumPart>(inner_parts)),
                                     .x_stride = x.stride,
                                     .rows = static_cast<int32_t>(x.rows),
                                     .experts = static_cast<int32_t>(experts),
                                     .most = static_cast<int32_t>(most),
                                     .columns = static_cast<int32_t>(inner.outputs),
                                     .k_steps = static_cast<int32_t>(inner.k_steps()),
                                     .activation = activation_kind(node.text("activation")),
                                     .limit = clamps ? static_cast<float>(node.number("limit")) : 0.0f,
                                     .alpha = clamps ? static_cast<float>(node.number("alpha")) : 0.0f,
                                     .route = on_inputs ? route.as<float>() : nullptr,
                                     .route_stride = route.stride,
                                     .first_expert = lists.first_expert};
  emit(typed(x.rows <= kTileRows ? "experts_inner_few" : "experts_inner", x.dtype), first,
       x.rows > 0 ? experts * tiles_of(inner.outputs) : 0);
  const BlockSplit split{node.integers("blocks")};
  const std::vector<ExpertPart> parts =
      expert_parts(split, graph_.rank, node.text("leaf") == "expert", experts, outer.leaf, outer.columns, has_bias);
  const ExpertsDownParameters second{.down = reinterpret_cast<const void*>(down),
                                     .bias = has_bias ? operand(node, 7).data() : nullptr,
                                     .inner = values,
                                     .route = on_inputs ? nullptr : route.as<float>(),
                                     .places = places,
                                     .y = y.as<float>(),
                                     .parts = table(std::span<const ExpertPart>(parts)),
                                     .route_stride = route.stride,
                                     .y_stride = y.stride,
                                     .y_plane = y.plane,
                                     .rows = rows_of(x),
                                     .first_expert = static_cast<int32_t>(node.integer("first_expert")),
                                     .experts = static_cast<int32_t>(experts),
                                     .most = static_cast<int32_t>(most),
                                     .columns = static_cast<int32_t>(outer.columns),
                                     .hidden = static_cast<int32_t>(outer.outputs),
                                     .k_steps = static_cast<int32_t>(outer.k_steps()),
                                     .part_count = static_cast<int32_t>(parts.size())};
  const bool has_work = x.rows > 0 && !parts.empty();
  emit(typed(x.rows <= kTileRows ? "experts_down_few" : "experts_down", x.dtype), second,
       has_work ? tiles_of(outer.outputs) : 0);
  return ok();
}

}  // namespace lockstep::cuda
