// Lowering of recurrent layers.
#include "runtime/backends/cuda/activation_kind.h"
#include "runtime/backends/cuda/lowering.h"

namespace lockstep::cuda {

static_assert(graph::kMostBlockRows <= kMostDeltaBlock);

RunRows Lowering::runs_of(const Tensor& result, const Tensor& slot, const Tensor& position) const {
  return {.slot = slot.as<int32_t>(), .position = position.as<int32_t>(), .rows = rows_of(result)};
}

void Lowering::lower_causal_conv(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& y = result(node);
  const Shape& kept = graph_.value(node.operands[2]).type.shape;
  const ConvolveParameters parameters{
      .x = x.data(),
      .weight = operand(node, 1).data(),
      .kept = operand(node, 2).data(),
      .y = y.data(),
      .x_stride = x.stride,
      .y_stride = y.stride,
      .runs = runs_of(y, operand(node, 3), operand(node, 4)),
      .slots = static_cast<int32_t>(kept[0]),
      .channels = static_cast<int32_t>(y.columns),
      .taps = static_cast<int32_t>(operand(node, 1).columns),
      .kept_rows = static_cast<int32_t>(kept[1]),
      .activates = node.has("activation"),
      .activation = node.has("activation") ? activation_kind(node.text("activation")) : kSilu};
  const int64_t groups = (y.columns + kConvolveThreads - 1) / kConvolveThreads;
  emit(typed("causal_conv", x.dtype), parameters, (kept[0] + 1) * groups);
}

void Lowering::lower_gated_delta_rule(const Node& node) {
  const Tensor& x = operand(node, 0);
  const Tensor& gates = operand(node, 1);
  const Tensor& y = result(node);
  const Shape& keys = graph_.value(node.operands[4]).type.shape;
  const Shape& changes = graph_.value(node.operands[5]).type.shape;
  const int64_t slots = keys[0], key_heads = keys[1] / 2, key_dim = keys[2], heads = changes[1] / 2;
  const DeltaHeads states{
      .keys = operand(node, 4).as<float>(),
      .changes = operand(node, 5).as<float>(),
      .decays = operand(node, 6).as<float>(),
      .borders = operand(node, 7).as<float>(),
      .unit = reinterpret_cast<float*>(scratch(y.rows * 2 * key_heads * key_dim * static_cast<int64_t>(sizeof(float)))),
      .slots = static_cast<int32_t>(slots),
      .key_heads = static_cast<int32_t>(key_heads),
      .heads = static_cast<int32_t>(heads),
      .key_dim = static_cast<int32_t>(key_dim),
      .value_dim = static_cast<int32_t>(changes[3]),
      .block = static_cast<int32_t>(keys[3])};
  const RunRows runs = runs_of(y, operand(node, 8), operand(node, 9));
  const DeltaRowParameters rows{.x = x.data(),
                                .x_stride = x.stride,
                                .runs = runs,
                                .heads = states,
                                .epsilon = static_cast<float>(node.number("epsilon"))};
  emit(typed("delta_norm", x.dtype), rows, y.rows * 2 * key_heads);
  emit(typed("delta_rule", x.dtype),
       DeltaRuleParameters{.x = x.data(),
                           .gates = gates.as<float>(),
                           .a_log = operand(node, 2).data(),
                           .dt_bias = operand(node, 3).data(),
                           .head_map = table_of(node.integers("head_map")),
                           .y = y.data(),
                           .x_stride = x.stride,
                           .gates_stride = gates.stride,
                           .y_stride = y.stride,
                           .runs = runs,
                           .heads = states},
       (slots + 1) * heads);
  emit("delta_keep", rows, y.rows * key_heads);
}

}  // namespace lockstep::cuda
