// Lowering of products with weights in codes, of tables in codes, and of roundings to 8 bits.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cuda/few_rows.h"
#include "runtime/backends/cuda/lowering.h"
#include "runtime/backends/cuda/sum_parts.h"
#include "runtime/graph/coded_weights.h"

namespace lockstep::cuda {
namespace {

constexpr int64_t kQuantiseWarps = kQuantiseThreads / 32;

int64_t parts_of(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

}  // namespace

/// The weight at `weights` and rows of x, which are quantised first if the node wants it.
CodedOperand Lowering::coded_operand(const Node& node, uint64_t weights, const CodedPacking& packing,
                                     const RowsOfX& x) {
  CodedOperand operand{.weights = reinterpret_cast<const void*>(weights),
                       .layout = packing.layout(),
                       .x = x.data,
                       .integers = nullptr,
                       .x_scales = nullptr,
                       .x_sums = nullptr,
                       .x_stride = x.stride};
  if (!graph::has_int8_activations(node)) return operand;
  const GroupCut& cut = operand.layout.groups;
  const int64_t groups = int64_t{x.rows.rows} * x.rows_of_one * cut.count;
  auto* integers = reinterpret_cast<uint32_t*>(scratch(groups * cut.words * 4));
  auto* scales = reinterpret_cast<float*>(scratch(groups * 4));
  auto* sums = reinterpret_cast<int32_t*>(scratch(groups * 4));
  const QuantiseParameters quantise{.x = x.data,
                                    .integers = integers,
                                    .scales = scales,
                                    .sums = sums,
                                    .x_stride = x.stride,
                                    .rows = x.rows,
                                    .rows_of_one = static_cast<int32_t>(x.rows_of_one),
                                    .cut = cut};
  emit(typed("quantise", x.dtype), quantise, parts_of(groups, kQuantiseWarps));
  operand.integers = integers;
  operand.x_scales = scales;
  operand.x_sums = sums;
  return operand;
}

Result<void> Lowering::lower_product_codes(const Node& node) {
  const Packing packing = packing_of(graph_, node, 1);
  LOCKSTEP_TRY(const uint64_t weights, weight(node, 1, packing));
  const auto& matrix = std::get<CodedPacking>(packing);
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const bool is_plain = node.op == graph::Op::kLinear;
  const std::vector<SumPart> parts =
      is_plain ? plain_group_parts(matrix.groups)
               : block_group_parts(BlockSplit{node.integers("blocks")}, graph_.rank, matrix.groups);
  if (!fits_stack(parts)) {
    return unsupported(
        fmt::format("found {} partial sums open at once, expected at most {}", parts.size(), kMostLevels));
  }
  const ProductCodesParameters parameters{
      .operand = coded_operand(node, weights, matrix, {x.data(), x.dtype, x.stride, rows_of(x), 1}),
      .bias = is_plain && node.operands.size() > 2 ? operand(node, 2).data() : nullptr,
      .y = y.data(),
      .parts = table(std::span<const SumPart>(parts)),
      .y_stride = y.stride,
      .y_plane = y.plane,
      .rows = rows_of(x),
      .outputs = static_cast<int32_t>(matrix.outputs),
      .part_count = static_cast<int32_t>(parts.size()),
      .y_type = element_type(y.dtype)};
  const bool has_work = x.rows > 0 && !parts.empty();
  emit(typed(x.rows <= kTileRows ? "product_codes_few" : "product_codes", x.dtype), parameters,
       has_work ? matrix.tiles() : 0);
  return ok();
}

/// A table in codes, which any form with whole rows as leaves serves.
Result<void> Lowering::embed_codes(const Node& node, const EmbedParameters& embed, const WeightLayout& table) {
  const WeightForm& form = table.forms.front();
  const auto& packing = std::get<CodedPacking>(form.packing);
  if (packing.groups.leaf < packing.groups.columns) {
    return unsupported(fmt::format("found {} as a table and in leaves of {} columns, expected whole rows",
                                   graph_.value(node.operands[1]).name, packing.groups.leaf));
  }
  EmbedCodesParameters parameters{.embed = embed, .layout = packing.layout()};
  parameters.embed.table = reinterpret_cast<const void*>(bases_.weights + static_cast<uint64_t>(form.offset));
  emit(typed("embed_codes", table.type.dtype), parameters, embed.rows.rows);
  return ok();
}

void Lowering::emit_fake_quantise(const RoundedRows& rows) {
  const int64_t group = std::min(rows.group, std::max<int64_t>(rows.columns, 1));
  const FakeQuantiseParameters parameters{.x = rows.x,
                                          .scale = rows.scale,
                                          .y = rows.y,
                                          .x_stride = rows.x_stride,
                                          .y_stride = rows.y_stride,
                                          .rows = rows.rows,
                                          .columns = static_cast<int32_t>(rows.columns),
                                          .group = static_cast<int32_t>(group),
                                          .is_e4m3 = rows.is_e4m3,
                                          .rows_of_one = static_cast<int32_t>(rows.rows_of_one)};
  const int64_t groups = rows.columns > 0 ? rows.most_rows * rows.rows_of_one * parts_of(rows.columns, group) : 0;
  emit(typed("fake_quantise", rows.x_type), parameters, parts_of(groups, kQuantiseWarps));
}

void Lowering::lower_fake_quantise(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  emit_fake_quantise({.x = x.data(),
                      .x_type = x.dtype,
                      .scale = node.operands.size() > 1 ? operand(node, 1).as<float>() : nullptr,
                      .y = y.as<float>(),
                      .x_stride = x.stride,
                      .y_stride = y.stride,
                      .rows = rows_of(y),
                      .most_rows = x.rows,
                      .columns = x.columns,
                      .group = node.integer_or("group", x.columns),
                      .is_e4m3 = node.has("codes", "e4m3")});
}

}  // namespace lockstep::cuda
