// Lowering of what works row by row: tables, copies, elementwise operations, norms.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cuda/lowering.h"

namespace lockstep::cuda {

using graph::Op;

RowCount Lowering::rows_of(const Tensor& tensor) const {
  const bool counts = tensor.is_token_rows && slot_of_rows_.has_value();
  const uint64_t in_use = bases_.head + offsetof(HeadWords, rows_in_use);
  return {.in_use = counts ? reinterpret_cast<const int32_t*>(in_use) : nullptr,
          .rows = static_cast<int32_t>(tensor.rows)};
}

Result<void> Lowering::lower_embedding(const Node& node) {
  const graph::Value& table_value = graph_.value(node.operands[1]);
  const auto known = layout_.weights.find(table_value.name);
  if (known == layout_.weights.end()) {
    return unsupported(fmt::format("found {} as a table, expected a weight of the store", table_value.name));
  }
  const Tensor& ids = operand(node, 0);
  const Tensor& y = result(last_of_launch(node));
  EmbedParameters parameters{.ids = ids.as<int32_t>(),
                             .table = nullptr,
                             .y = y.data(),
                             .rows = {.in_use = rows_of(y).in_use, .rows = static_cast<int32_t>(ids.columns)},
                             .first_row = static_cast<int32_t>(node.integer("first_row")),
                             .table_rows = static_cast<int32_t>(table_value.type.shape[0]),
                             .columns = static_cast<int32_t>(table_value.type.shape[1]),
                             .k_steps = 0,
                             .is_float = y.dtype == DType::kFloat32,
                             // What a rank adds for another rank's row: x + −0 is x, also if x is −0.
                             .nothing = graph_.ranks > 1 ? -0.0f : 0.0f};
  if (known->second.format) return embed_codes(node, parameters, known->second);
  for (const WeightForm& form : known->second.forms) {
    const auto* stack = std::get_if<StackedPacking>(&form.packing);
    const bool is_plain = form.packing.index() == 0;
    if (!is_plain && (stack == nullptr || stack->matrix.leaf < stack->matrix.columns)) continue;
    parameters.table = reinterpret_cast<const void*>(bases_.weights + static_cast<uint64_t>(form.offset));
    parameters.k_steps = is_plain ? 0 : static_cast<int32_t>(stack->matrix.k_steps());
    if (is_plain) break;
  }
  emit(typed("embed", table_value.type.dtype), parameters, ids.columns);
  return ok();
}

void Lowering::lower_rows(const Node& node) {
  const bool is_lookup = node.op == Op::kLookup;
  const Tensor& index = operand(node, is_lookup ? 0 : 1);
  const Tensor& from = operand(node, is_lookup ? 1 : 0);
  const Tensor& y = result(node);
  const TakeRowsParameters parameters{.index = index.as<int32_t>(),
                                      .mask = nullptr,
                                      .from = from.data(),
                                      .y = y.data(),
                                      .from_stride = from.stride,
                                      .y_stride = y.stride,
                                      .rows = rows_of(y),
                                      .offset = is_lookup ? static_cast<int32_t>(node.integer("offset")) : 0,
                                      .from_rows = static_cast<int32_t>(from.rows),
                                      .otherwise = static_cast<int32_t>(node.integer_or("otherwise", -1)),
                                      .columns = static_cast<int32_t>(y.columns)};
  emit(sized("take_rows", y.dtype), parameters, y.rows);
}

/// All planes of `from` to `to`, which has as many rows and columns.
void Lowering::copy_rows(const Tensor& from, const Tensor& to) {
  for (int64_t plane = 0; plane < from.planes; ++plane) {
    const auto at = [plane](const Tensor& t) {
      return reinterpret_cast<void*>(t.address + static_cast<uint64_t>(plane * t.plane * t.element_size()));
    };
    const TakeRowsParameters parameters{.index = nullptr,
                                        .mask = nullptr,
                                        .from = at(from),
                                        .y = at(to),
                                        .from_stride = from.stride,
                                        .y_stride = to.stride,
                                        .rows = rows_of(from),
                                        .offset = 0,
                                        .from_rows = static_cast<int32_t>(from.rows),
                                        .otherwise = -1,
                                        .columns = static_cast<int32_t>(from.columns)};
    emit(sized("take_rows", from.dtype), parameters, from.columns > 0 ? from.rows : 0);
  }
}

void Lowering::lower_columns(const Node& node) {
  if (is_view(node)) return;
  const Tensor& y = result(node);
  Tensor from = operand(node, 0);
  from.address += static_cast<uint64_t>(node.integer("begin") * from.element_size());
  from.columns = y.columns;
  copy_rows(from, y);
}

void Lowering::lower_join(const Node& node) {
  Tensor to = result(node);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Tensor& from = operand(node, i);
    copy_rows(from, to);
    to.address += static_cast<uint64_t>(from.columns * from.element_size());
  }
}

void Lowering::lower_take_columns(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const TakeColumnsParameters parameters{.x = x.data(),
                                         .order = operand(node, 1).as<float>(),
                                         .y = y.data(),
                                         .x_stride = x.stride,
                                         .y_stride = y.stride,
                                         .rows = rows_of(y),
                                         .width = static_cast<int32_t>(x.columns),
                                         .columns = static_cast<int32_t>(y.columns)};
  emit(sized("take_columns", y.dtype), parameters, (y.rows * y.columns + kMapThreads - 1) / kMapThreads);
}

void Lowering::lower_join_heads(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& z = operand(node, 1);
  const Tensor& y = result(node);
  const int64_t heads = node.integer("heads");
  const JoinHeadsParameters parameters{.x = x.data(),
                                       .z = z.data(),
                                       .y = y.data(),
                                       .x_stride = x.stride,
                                       .z_stride = z.stride,
                                       .y_stride = y.stride,
                                       .rows = rows_of(y),
                                       .columns = static_cast<int32_t>(y.columns),
                                       .of_x = static_cast<int32_t>(x.columns / heads),
                                       .of_z = static_cast<int32_t>(z.columns / heads)};
  emit(sized("join_heads", y.dtype), parameters, (y.rows * y.columns + kMapThreads - 1) / kMapThreads);
}

void Lowering::lower_map(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const Finish operation = elementwise(node);
  MapParameters parameters{.x = x.data(),
                           .z = nullptr,
                           .y = y.data(),
                           .x_stride = x.stride,
                           .z_stride = 0,
                           .y_stride = y.stride,
                           .rows = rows_of(y),
                           .columns = static_cast<int32_t>(y.columns),
                           .z_columns = static_cast<int32_t>(y.columns),
                           .kind = operation.kind,
                           .activation = operation.activation,
                           .number = operation.number};
  if (node.operands.size() > 1) {
    const bool is_row = graph_.value(node.operands[1]).type.shape.rank() == 1;
    parameters.z = operand(node, 1).data();
    parameters.z_stride = is_row ? 0 : operand(node, 1).stride;
    if (is_row) parameters.z_columns = static_cast<int32_t>(graph_.value(node.operands[1]).type.shape[0]);
  } else if (node.op == Op::kGatedActivation) {  // gate and up side by side
    parameters.z = reinterpret_cast<const void*>(x.address + static_cast<uint64_t>(y.columns * x.element_size()));
    parameters.z_stride = x.stride;
  }
  emit(typed("map", y.dtype), parameters, (y.rows * y.columns + kMapThreads - 1) / kMapThreads);
}

void Lowering::lower_scale_rows(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const bool by_position = node.op == Op::kScaleByPosition;
  const Tensor& factors = operand(node, by_position ? 2 : 1);
  const ScaleRowsParameters parameters{.x = x.data(),
                                       .y = y.data(),
                                       .factors = factors.as<float>(),
                                       .position = by_position ? operand(node, 1).as<int32_t>() : nullptr,
                                       .x_stride = x.stride,
                                       .y_stride = y.stride,
                                       .factors_stride = factors.stride,
                                       .rows = rows_of(y),
                                       .columns = static_cast<int32_t>(y.columns),
                                       .every = by_position ? static_cast<int32_t>(node.integer("every")) : 1,
                                       .offset = static_cast<int32_t>(node.integer_or("offset", 0)),
                                       .last = static_cast<int32_t>(factors.columns - 1)};
  emit(typed("scale_rows", y.dtype), parameters, (y.rows * y.columns + kMapThreads - 1) / kMapThreads);
}

void Lowering::lower_rms_norm(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const int64_t groups = node.integer_or("heads", 1);
  const RmsNormParameters parameters{.x = x.data(),
                                     .y = y.data(),
                                     .x_stride = x.stride,
                                     .y_stride = y.stride,
                                     .norm = norm_of(node),
                                     .rows = rows_of(y),
                                     .groups = static_cast<int32_t>(groups),
                                     .columns = static_cast<int32_t>(y.columns / groups)};
  emit(typed("rms_norm", x.dtype), parameters, y.rows * groups);
}

void Lowering::lower_stream(const Node& node) {
  const bool matches = node.op == Op::kMatchMagnitude;
  const Tensor& x = operand(node, 0);
  const Tensor& like = operand(node, matches ? 1 : 0);
  const Tensor& y = result(node);
  const StreamParameters parameters{.x = x.data(),
                                    .like = like.data(),
                                    .y = y.data(),
                                    .x_stride = x.stride,
                                    .like_stride = like.stride,
                                    .y_stride = y.stride,
                                    .rows = rows_of(y),
                                    .columns = static_cast<int32_t>(y.columns),
                                    .number = static_cast<float>(node.number(matches ? "least" : "deviations"))};
  emit(typed(matches ? "match_magnitude" : "cut_off", y.dtype), parameters, y.rows);
}

void Lowering::lower_weighted_sum(const Node& node) {
  static_assert(kMostTermsOfSum == graph::kMostTerms);
  const Tensor& factors = operand(node, 0);
  const Tensor& y = result(node);
  WeightedSumParameters parameters{};
  parameters.factors = reinterpret_cast<const void*>(
      factors.address + static_cast<uint64_t>(node.integer("first") * factors.element_size()));
  parameters.factors_stride = factors.stride;
  parameters.terms = static_cast<int32_t>(node.operands.size()) - 1;
  for (int term = 0; term < parameters.terms; ++term) {
    const Tensor& x = operand(node, static_cast<size_t>(term) + 1);
    parameters.x[term] = x.data();
    parameters.x_strides[term] = x.stride;
  }
  parameters.y = y.data();
  parameters.y_stride = y.stride;
  parameters.rows = rows_of(y);
  parameters.columns = static_cast<int32_t>(y.columns);
  parameters.offset = static_cast<float>(node.number_or("offset", 0.0));
  emit(typed("weighted_sum", y.dtype), parameters, (y.rows * y.columns + kMapThreads - 1) / kMapThreads);
}

void Lowering::lower_layer_norm(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const LayerNormParameters parameters{.x = x.data(),
                                       .y = y.data(),
                                       .x_stride = x.stride,
                                       .y_stride = y.stride,
                                       .norm = norm_of(node),
                                       .rows = rows_of(y),
                                       .columns = static_cast<int32_t>(y.columns)};
  emit(typed("layer_norm", x.dtype), parameters, y.rows);
}

}  // namespace lockstep::cuda
