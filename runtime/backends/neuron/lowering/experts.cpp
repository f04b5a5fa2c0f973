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

/// pred [R, N]: the `count` highest of each row, ties to the lowest column. Taken numbers count as −∞.
Value highest_of_rows(Builder& b, Value values, int64_t count) {
  const std::vector<int64_t> dims = b.dims_of(values);
  const Value lowest = b.fill_like(values, -std::numeric_limits<float>::infinity());
  const Value ids = b.iota({Element::kF32, dims, {}}, 1);
  Value left = values;
  Value chosen = b.broadcast(b.constant(false), dims, {});
  for (int64_t i = 0; i < count; ++i) {
    const Value highest = along(b, b.reduce_max(left, {1}), dims, 0);
    const Value candidates = b.select(b.compare(Direction::kEq, left, highest), ids,
                                      b.fill_like(ids, std::numeric_limits<float>::infinity()));
    const Value taken = b.compare(Direction::kEq, ids, along(b, b.reduce_min(candidates, {1}), dims, 0));
    chosen = b.logical_or(chosen, taken);
    left = b.select(taken, lowest, left);
  }
  return chosen;
}

/// `choice` [T, E] with −∞ for the experts outside the groups with the highest scores.
Value within_best_groups(const NodeView& node, Value choice) {
  Builder& b = node.builder();
  const std::vector<int64_t> dims = b.dims_of(choice);
  const int64_t groups = node.node().integer("groups"), size = dims[1] / groups;
  const Value rows = b.reshape(choice, {dims[0] * groups, size});
  const bool by_two = node.node().text("group_score") == "best_two";
  const Value best = b.select(highest_of_rows(b, rows, by_two ? 2 : 1), rows, b.fill_like(rows, 0.0));
  const Value score = b.reshape(b.reduce_add(best, {1}), {dims[0], groups});
  const Value kept = highest_of_rows(b, score, node.node().integer("kept_groups"));
  const Value is_kept = b.reshape(b.broadcast(kept, {dims[0], groups, size}, {0, 1}), dims);
  return b.select(is_kept, choice, b.fill_like(choice, -std::numeric_limits<float>::infinity()));
}

}  // namespace

Result<void> lower_moe_route(const NodeView& node) {
  Builder& b = node.builder();
  const bool is_sigmoid = node.node().has("scores", "sigmoid");
  const Value logits = node.operand(0);
  const std::vector<int64_t> dims = b.dims_of(logits);
  const double least_sum = node.number_or("least_sum", 0.0);
  const bool has_groups = node.node().has("groups"), has_bias = node.operands() > 1;
  const Value best = b.reduce_max(logits, {1});
  const Value weight = is_sigmoid ? b.unary(Opcode::kLogistic, logits)
                                  : b.unary(Opcode::kExponential, b.subtract(logits, along(b, best, dims, 0)));
  const auto sum_of = [&](Value values) { return along(b, b.reduce_add(values, {1}), dims, 0); };
  Value choice = logits, scores = weight;
  const bool needs_scores = has_groups || has_bias || least_sum > 0.0;
  if (needs_scores && !is_sigmoid) scores = b.divide(weight, sum_of(weight));
  if (has_groups || has_bias) choice = scores;
  if (has_bias) choice = b.add(choice, along(b, node.operand(1), dims, 1));
  if (has_groups) choice = within_best_groups(node, choice);
  const Value chosen = highest_of_rows(b, choice, node.node().integer("chosen"));
  Value routes = b.select(chosen, scores, b.fill_like(scores, 0.0));
  if (!node.node().has("over", "all")) {
    Value sum = sum_of(routes);
    if (least_sum > 0.0) sum = b.maximum(sum, b.fill_like(sum, least_sum));
    routes = b.divide(routes, sum);
  } else if (!needs_scores && !is_sigmoid) {
    routes = b.divide(routes, sum_of(weight));
  }
  if (const double scale = node.number_or("scale", 1.0); scale != 1.0) routes = b.multiply(routes, scale);
  node.set_result(routes);
  return ok();
}

Result<void> lower_moe_experts(const NodeView& node) {
  Builder& b = node.builder();
  Value gate = inner_product(node, kGate, kGateBias);
  Value up = inner_product(node, kUp, kUpBias);
  const bool on_inputs = node.node().has("routes_on", "inputs");
  if (on_inputs) {
    const Value spread = b.broadcast(own_route(node, b.dims_of(gate)[1]), b.dims_of(gate), {0, 1});
    gate = b.multiply(gate, spread);
    up = b.multiply(up, spread);
  }
  const std::string& name = node.node().text("activation");
  const Value inner =
      name == "clamped_swiglu" ? clamped_swiglu(node, gate, up) : b.multiply(activate(b, name, gate), up);
  const Value rounded = b.convert(inner, b.element_of(node.operand(kX)));
  Value sums = b.dot(rounded, node.operand(kDown),
                     {.lhs_contracting = {2}, .rhs_contracting = {2}, .lhs_batch = {1}, .rhs_batch = {0}},
                     Element::kF32);  // [L, T, d]
  if (node.operands() > kDownBias) sums = b.add(sums, b.broadcast(down_bias(node), b.dims_of(sums), {0, 2}));
  // An expert without a route has a sum of zero if routes are on inputs: its gate and up are.
  if (on_inputs) {
    node.set_result(b.reduce_add(sums, {0}));
    return ok();
  }
  const Value shares = b.transpose(own_route(node, b.dims_of(sums)[0]), {1, 0});
  node.set_result(b.reduce_add(b.multiply(sums, b.broadcast(shares, b.dims_of(sums), {0, 1})), {0}));
  return ok();
}

}  // namespace lockstep::neuron
