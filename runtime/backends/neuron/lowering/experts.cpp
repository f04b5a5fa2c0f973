// Mixture of experts. Shapes are static, so every expert is computed for every row; unchosen experts have weight zero.
#include <limits>

#include "runtime/backends/neuron/lowering/arithmetic.h"
#include "runtime/backends/neuron/lowering/step.h"

namespace lockstep::neuron {
namespace {

using hlo::Builder;
using hlo::Direction;
using hlo::Element;
using hlo::Opcode;
using hlo::Value;

/// The operands of `moe_experts`, in order. On the device: gate and up [L, I, d], down [L, d, I], their biases [L, I]
/// and [L, d].
enum ExpertOperand : size_t { kX, kRoute, kGate, kUp, kDown, kGateBias, kUpBias, kDownBias };

/// x · wᵀ (+ bias) of every expert: f32 [T, L, I].
Value inner_product(const NodeView& node, ExpertOperand weight, ExpertOperand bias) {
  Builder& b = node.builder();
  const Value y =
      b.dot(node.operand(kX), node.operand(weight), {.lhs_contracting = {1}, .rhs_contracting = {2}}, Element::kF32);
  if (node.operands() <= bias) return y;
  return b.add(y, b.broadcast(to_f32(b, node.operand(bias)), b.dims_of(y), {1, 2}));
}

/// (up + 1) · gate · sigmoid(alpha · gate), with gate and up clamped (gpt-oss).
Value clamped_swiglu(const NodeView& node, Value gate, Value up) {
  Builder& b = node.builder();
  const Value limit = b.fill_like(gate, node.node().number("limit"));
  const Value least = b.fill_like(gate, -node.node().number("limit"));
  const Value g = b.minimum(gate, limit);
  const Value u = b.maximum(b.minimum(up, limit), least);
  const Value sigmoid = b.unary(Opcode::kLogistic, b.multiply(g, node.node().number("alpha")));
  return b.multiply(b.multiply(b.add(u, 1.0), g), sigmoid);
}

/// f32 [T, L]: the routing weights of this rank's experts. Padding experts have zero weights, so their routing is
/// arbitrary.
Value own_route(const NodeView& node, int64_t held) {
  Builder& b = node.builder();
  const Value route = node.operand(kRoute);
  const int64_t rows = b.dims_of(route)[0];
  if (b.dims_of(route)[1] == held) return route;
  const Value padded = b.pad(route, b.constant(0.0f), {0, 0}, {0, held});
  const Value first = b.reshape(node.integer_of_each_rank("first_expert"), {});
  return b.dynamic_slice(padded, {b.constant(int32_t{0}), first}, {rows, held});
}

/// The down biases, f32 [L, d]. If each expert is divided, only the rank with leaf 0 has them, because they are added
/// once.
Value down_bias(const NodeView& node) {
  Builder& b = node.builder();
  const Value bias = to_f32(b, node.operand(kDownBias));
  if (node.node().text("leaf") == "expert") return bias;
  std::vector<std::vector<float>> holds;
  const std::vector<int64_t>& bounds = node.node().integers("blocks");
  for (int rank = 0; rank < node.step().ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    holds.push_back({bounds[r] == 0 && bounds[r + 1] > 0 ? 1.0f : 0.0f});
  }
  const Value share = node.step().of_each_rank(node.own_name("holds_first_leaf"), holds);
  return b.multiply(bias, everywhere(b, share, b.dims_of(bias)));
}

}  // namespace

/// Selects the highest logit `chosen` times, ties to the lowest expert.
Result<void> lower_moe_route(const NodeView& node) {
  Builder& b = node.builder();
  const Value logits = node.operand(0);
  const std::vector<int64_t> dims = b.dims_of(logits);
  const Value lowest = b.fill_like(logits, -std::numeric_limits<float>::infinity());
  const Value ids = b.iota({Element::kF32, dims, {}}, 1);
  const Value best = b.reduce_max(logits, {1});
  Value left = logits;
  Value chosen = b.broadcast(b.constant(false), dims, {});
  for (int64_t i = 0; i < node.node().integer("chosen"); ++i) {
    const Value highest = along(b, b.reduce_max(left, {1}), dims, 0);
    const Value candidates = b.select(b.compare(Direction::kEq, left, highest), ids,
                                      b.fill_like(ids, std::numeric_limits<float>::infinity()));
    const Value taken = b.compare(Direction::kEq, ids, along(b, b.reduce_min(candidates, {1}), dims, 0));
    chosen = b.logical_or(chosen, taken);
    left = b.select(taken, lowest, left);
  }
  const Value weight = b.unary(Opcode::kExponential, b.subtract(logits, along(b, best, dims, 0)));
  const Value kept = b.select(chosen, weight, b.fill_like(weight, 0.0));
  const bool is_over_all = node.node().has("over") && node.node().text("over") == "all";
  node.set_result(b.divide(kept, along(b, b.reduce_add(is_over_all ? weight : kept, {1}), dims, 0)));
  return ok();
}

Result<void> lower_moe_experts(const NodeView& node) {
  Builder& b = node.builder();
  const Value gate = inner_product(node, kGate, kGateBias);
  const Value up = inner_product(node, kUp, kUpBias);
  const std::string& name = node.node().text("activation");
  const Value inner =
      name == "clamped_swiglu" ? clamped_swiglu(node, gate, up) : b.multiply(activate(b, name, gate), up);
  const Value rounded = b.convert(inner, b.element_of(node.operand(kX)));
  Value sums = b.dot(rounded, node.operand(kDown),
                     {.lhs_contracting = {2}, .rhs_contracting = {2}, .lhs_batch = {1}, .rhs_batch = {0}},
                     Element::kF32);  // [L, T, d]
  if (node.operands() > kDownBias) sums = b.add(sums, b.broadcast(down_bias(node), b.dims_of(sums), {0, 2}));
  const Value shares = b.transpose(own_route(node, b.dims_of(sums)[0]), {1, 0});
  node.set_result(b.reduce_add(b.multiply(sums, b.broadcast(shares, b.dims_of(sums), {0, 1})), {0}));
  return ok();
}

}  // namespace lockstep::neuron
