// Lowering of mixtures of experts: routes, lists of rows, and the two products of every expert.
#include <algorithm>

#include "runtime/backends/cuda/activation_kind.h"
#include "runtime/backends/cuda/lowering.h"
#include "runtime/backends/cuda/sum_parts.h"
#include "runtime/graph/coded_weights.h"

namespace lockstep::cuda {
namespace {

int64_t tiles_of(int64_t outputs) { return (outputs + kTileOutputs - 1) / kTileOutputs; }

/// Outputs of an expert, and steps of its tiles: groups of weights in codes have none.
struct ExpertMatrix {
  int64_t outputs = 0;
  int64_t columns = 0;
  int64_t leaf = 1;
  int64_t k_steps = 0;
  std::optional<ColumnGroups> groups;
};

ExpertMatrix matrix_of(const Packing& packing) {
  if (const auto* codes = std::get_if<CodedPacking>(&packing)) {
    return {codes->outputs, codes->groups.columns, codes->groups.leaf, 0, codes->groups};
  }
  const FragmentPacking& matrix = std::get<StackedPacking>(packing).matrix;
  return {matrix.outputs, matrix.columns, matrix.leaf, matrix.k_steps(), std::nullopt};
}

}  // namespace

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

/// The lists of rows of this rank's experts.
ListExpertsParameters Lowering::list_experts(const Node& node) {
  const int64_t experts = node.integer("experts");
  const Tensor& x = operand(node, 0);
  const Tensor& route = operand(node, 1);
  const ListExpertsParameters lists{.route = route.as<float>(),
                                    .slot = slot_of_padding(),
                                    .counts = reinterpret_cast<int32_t*>(scratch(experts * 4)),
                                    .list = reinterpret_cast<int32_t*>(scratch(experts * x.rows * 4)),
                                    .places = reinterpret_cast<int32_t*>(scratch(experts * x.rows * 4)),
                                    .route_stride = route.stride,
                                    .rows = rows_of(x),
                                    .first_expert = static_cast<int32_t>(node.integer("first_expert")),
                                    .experts = static_cast<int32_t>(experts)};
  emit("list_experts", lists, experts);
  return lists;
}

/// The values between an expert's products: [rows, most, columns].
Result<void> Lowering::lower_experts_inner(const Node& node, const ListExpertsParameters& lists, void* values) {
  const Packing gate_packing = packing_of(graph_, node, 2), up_packing = packing_of(graph_, node, 3);
  LOCKSTEP_TRY(const uint64_t gate, weight(node, 2, gate_packing));
  LOCKSTEP_TRY(const uint64_t up, weight(node, 3, up_packing));
  const ExpertMatrix inner = matrix_of(gate_packing);
  if (inner.groups != matrix_of(up_packing).groups) {
    return unsupported("found gates and ups of experts in unlike groups, expected equal ones");
  }
  const Tensor& x = operand(node, 0);
  const Tensor& route = operand(node, 1);
  const bool has_bias = node.operands.size() > 5;
  const bool clamps = node.text("activation") == "clamped_swiglu";
  const std::vector<SumPart> parts = inner.groups ? plain_group_parts(*inner.groups) : plain_parts(inner.columns);
  const ExpertsInnerParameters first{.gate = reinterpret_cast<const void*>(gate),
                                     .up = reinterpret_cast<const void*>(up),
                                     .gate_bias = has_bias ? operand(node, 5).data() : nullptr,
                                     .up_bias = has_bias ? operand(node, 6).data() : nullptr,
                                     .x = x.data(),
                                     .counts = lists.counts,
                                     .list = lists.list,
                                     .places = lists.places,
                                     .y = values,
                                     .parts = table(std::span<const SumPart>(parts)),
                                     .x_stride = x.stride,
                                     .rows = static_cast<int32_t>(x.rows),
                                     .experts = lists.experts,
                                     .most = static_cast<int32_t>(experts_of_row(node)),
                                     .columns = static_cast<int32_t>(inner.outputs),
                                     .k_steps = static_cast<int32_t>(inner.k_steps),
                                     .activation = activation_kind(node.text("activation")),
                                     .limit = clamps ? static_cast<float>(node.number("limit")) : 0.0f,
                                     .alpha = clamps ? static_cast<float>(node.number("alpha")) : 0.0f,
                                     .route = node.has("routes_on", "inputs") ? route.as<float>() : nullptr,
                                     .route_stride = route.stride,
                                     .first_expert = lists.first_expert};
  const int64_t blocks = x.rows > 0 ? lists.experts * tiles_of(inner.outputs) : 0;
  const bool is_few = x.rows <= kTileRows;
  if (!inner.groups) {
    emit(typed(is_few ? "experts_inner_few" : "experts_inner", x.dtype), first, blocks);
    return ok();
  }
  ExpertsInnerCodesParameters parameters{.experts = first, .gate = {}, .up = {}};
  parameters.gate =
      coded_operand(node, gate, std::get<CodedPacking>(gate_packing), {x.data(), x.dtype, x.stride, rows_of(x), 1});
  parameters.up = parameters.gate;  // of the same rows
  parameters.up.weights = first.up;
  parameters.up.layout = std::get<CodedPacking>(up_packing).layout();
  emit(typed(is_few ? "experts_inner_codes_few" : "experts_inner_codes", x.dtype), parameters, blocks);
  return ok();
}

Result<void> Lowering::lower_experts(const Node& node) {
  const Packing packing = packing_of(graph_, node, 4);
  LOCKSTEP_TRY(const uint64_t down, weight(node, 4, packing));
  const ExpertMatrix outer = matrix_of(packing);
  const Tensor& x = operand(node, 0);
  const Tensor& route = operand(node, 1);
  const Tensor& y = result(node);
  const int64_t most = experts_of_row(node);
  const ListExpertsParameters lists = list_experts(node);
  auto* values = reinterpret_cast<void*>(scratch(x.rows * most * outer.columns * x.element_size()));
  LOCKSTEP_TRY_VOID(lower_experts_inner(node, lists, values));
  if (node.has("rounds")) {
    emit_fake_quantise({.x = values,
                        .x_type = DType::kFloat32,
                        .y = static_cast<float*>(values),  // in its place
                        .x_stride = outer.columns,
                        .y_stride = outer.columns,
                        .rows = rows_of(x),
                        .most_rows = x.rows,
                        .rows_of_one = most,
                        .columns = outer.columns,
                        .group = node.integer_or("rounds_group", outer.columns),
                        .is_e4m3 = node.has("rounds", "e4m3")});
  }
  const bool has_bias = node.operands.size() > 5;
  const std::vector<ExpertPart> parts =
      expert_parts(BlockSplit{node.integers("blocks")}, graph_.rank, node.text("leaf") == "expert", lists.experts,
                   {outer.columns, outer.leaf, outer.groups}, has_bias);
  const ExpertsDownParameters second{.down = reinterpret_cast<const void*>(down),
                                     .bias = has_bias ? operand(node, 7).data() : nullptr,
                                     .inner = values,
                                     .route = node.has("routes_on", "inputs") ? nullptr : route.as<float>(),
                                     .places = lists.places,
                                     .y = y.as<float>(),
                                     .parts = table(std::span<const ExpertPart>(parts)),
                                     .route_stride = route.stride,
                                     .y_stride = y.stride,
                                     .y_plane = y.plane,
                                     .rows = rows_of(x),
                                     .first_expert = lists.first_expert,
                                     .experts = lists.experts,
                                     .most = static_cast<int32_t>(most),
                                     .columns = static_cast<int32_t>(outer.columns),
                                     .hidden = static_cast<int32_t>(outer.outputs),
                                     .k_steps = static_cast<int32_t>(outer.k_steps),
                                     .part_count = static_cast<int32_t>(parts.size())};
  const int64_t blocks = x.rows > 0 && !parts.empty() ? tiles_of(outer.outputs) : 0;
  const bool is_few = x.rows <= kTileRows;
  if (!outer.groups) {
    emit(typed(is_few ? "experts_down_few" : "experts_down", x.dtype), second, blocks);
    return ok();
  }
  ExpertsDownCodesParameters parameters{.experts = second, .down = {}};
  parameters.down =
      coded_operand(node, down, std::get<CodedPacking>(packing), {values, x.dtype, outer.columns, rows_of(x), most});
  emit(typed(is_few ? "experts_down_codes_few" : "experts_down_codes", x.dtype), parameters, blocks);
  return ok();
}

/// Of this rank's experts, at most.
int64_t Lowering::experts_of_row(const Node& node) const {
  return std::min(node.integer("experts"), graph::experts_of_row(graph_, node.operands[1]));
}

}  // namespace lockstep::cuda
