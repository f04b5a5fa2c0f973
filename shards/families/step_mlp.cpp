// A layer's MLP: plain, gated, or a mixture of gated experts, with one that all tokens share or without.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "shards/families/step_builder.h"

namespace lockstep::families {

using checkpoint::Mlp;
using graph::ValueId;

namespace {

/// The number of standard deviations below which the part `p` of a normal distribution lies; bisected, as
/// Φ(z) = erfc(−z / √2) / 2 rises.
double normal_quantile(double p) {
  double low = -40.0, high = 40.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

ValueId StepBuilder::mlp(ValueId x, int64_t layer) {
  if (!spec_.has_experts(layer)) return reduce(dense_partial(x, layer));
  const std::string prefix = fmt::format("model.layers.{}.mlp.", layer);
  const Partial experts = experts_partial(x, route(x, prefix), prefix);
  if (spec_.shared_expert_size == 0) return reduce(experts);
  const Partial shared = dense_partial(x, prefix + "shared_expert.", columns_of(partition_.shared_expert));
  auto [sum, shared_sum] = reduce(experts, shared);
  if (spec_.shared_expert_gate) {
    const ValueId gate = whole_weight(prefix + "shared_expert_gate.weight", {1, spec_.hidden_size});
    const ValueId logit = graph_.linear(x, gate, std::nullopt, DType::kFloat32);
    shared_sum = graph_.scale_rows(shared_sum, graph_.activation(logit, "sigmoid"));
  }
  return graph_.add(sum, shared_sum);
}

ValueId StepBuilder::mlp_beside_experts(ValueId x, ValueId normed, int64_t layer) {
  const std::string at = fmt::format("model.layers.{}.", layer), prefix = at + "mlp.";
  const Partial beside = dense_partial(normed, prefix + "shared_expert.", columns_of(partition_.shared_expert));
  const ValueId routed = rms_norm(x, whole_weight(prefix + "router.scale", {spec_.hidden_size}), 1);
  const double root = 1.0 / std::sqrt(static_cast<double>(spec_.hidden_size));
  const ValueId routes = graph_.multiply(route(graph_.scale(routed, root), prefix),
                                         float_weight(prefix + "router.expert_scale", {spec_.experts}));
  const auto [own, sum] = reduce(beside, experts_partial(norm(x, at + "pre_feedforward_layernorm_2"), routes, prefix));
  return graph_.add(norm(own, at + "post_feedforward_layernorm_1"), norm(sum, at + "post_feedforward_layernorm_2"));
}

StepBuilder::Columns StepBuilder::columns_of(const partition::ColumnSplit& split) const {
  return {split.columns, split.of(shape_.rank), split.blocks, split.block};
}

StepBuilder::Partial StepBuilder::dense_partial(ValueId x, int64_t layer) {
  const bool is_beside_experts = spec_.mlp == Mlp::kExperts;
  const int64_t size = spec_.mlp_size(layer), width = size / spec_.intermediate_size;
  const Range own{part_.mlp_columns.begin * width, part_.mlp_columns.end * width};
  const Columns whole{size, own, partition_.mlp_blocks, partition_.mlp_block * width};
  const double dropped = spec_.gate_sparsity.empty() ? 0.0 : spec_.gate_sparsity[static_cast<size_t>(layer)];
  return dense_partial(x, fmt::format("model.layers.{}.mlp.", layer),
                       is_beside_experts ? columns_of(partition_.dense_layers) : whole, dropped);
}

StepBuilder::Partial StepBuilder::dense_partial(ValueId x, const std::string& prefix, const Columns& columns,
                                                double dropped) {
  const Shape up_shape{columns.all, spec_.hidden_size};
  const Bias bias = bias_if(spec_.mlp_bias);
  std::optional<ValueId> gate;
  if (spec_.mlp != Mlp::kPlain) gate = column_parallel(x, prefix + "gate_proj", columns.own, up_shape, bias);
  if (gate && dropped > 0.0) gate = sparse_gate(*gate, dropped, columns.own);
  const ValueId up = column_parallel(x, prefix + "up_proj", columns.own, up_shape, bias);
  const ValueId inner =
      gate ? graph_.gated_activation(*gate, up, spec_.activation) : graph_.activation(up, spec_.activation);
  return row_parallel(inner, prefix + "down_proj", columns.own, {spec_.hidden_size, columns.all}, columns.blocks,
                      columns.block, bias);
}

ValueId StepBuilder::sparse_gate(ValueId gate, double dropped, Range own) {
  std::vector<int64_t> parts;
  for (const partition::RankPart& part : partition_.parts) parts.push_back(part.mlp_columns.size());
  const ValueId kept = graph_.cut_off(gathered(gate, std::move(parts)), normal_quantile(dropped));
  return partition_.ranks() > 1 ? graph_.columns(kept, own) : kept;
}

/// The slices `ranges` of every own expert's tensor, one expert after the other. Every rank lists all experts' tensors,
/// by whose places ranks name them to each other.
ValueId StepBuilder::expert_weights(const std::string& prefix, const std::string& name, const Shape& whole,
                                    const std::vector<Range>& ranges, std::optional<int64_t> leaf) {
  std::vector<graph::WeightSlice> slices;
  for (int64_t expert = 0; expert < spec_.experts; ++expert) {
    const std::string tensor = fmt::format("{}experts.{}.{}", prefix, expert, name);
    tensors_.emplace(tensor, whole);
    if (expert >= part_.experts.begin && expert < part_.experts.end) slices.push_back({tensor, ranges});
  }
  std::vector<int64_t> dims;
  for (const Range& range : ranges) dims.push_back(range.size());
  dims[0] *= part_.experts.size();
  const std::optional<WeightFormat> format = ranges.size() == 2 ? format_of(slices, leaf) : std::nullopt;
  const DType type = product_type(fmt::format("{}experts.*.{}.weight", prefix, name.substr(0, name.find('.'))));
  return graph_.weight(prefix + "experts." + name, {type, Shape(std::move(dims))}, std::move(slices), format);
}

/// A whole vector in float32: factors of weights, or what decides between scores that differ little.
ValueId StepBuilder::float_weight(const std::string& name, const Shape& shape) {
  tensors_.emplace(name, shape);
  return graph_.weight(name, {DType::kFloat32, shape}, {{name, {{0, shape[0]}}}});
}

ValueId StepBuilder::route(ValueId x, const std::string& prefix) {
  const checkpoint::RouterSpec& router = spec_.router;
  std::optional<ValueId> bias;
  if (spec_.mlp_bias) bias = whole_weight(prefix + "router.bias", {spec_.experts});
  const ValueId logits = graph_.linear(x, whole_weight(prefix + "router.weight", {spec_.experts, spec_.hidden_size}),
                                       bias, DType::kFloat32);
  graph::RouteOptions options{
      .chosen = spec_.experts_per_token,
      .scores = router.scores == checkpoint::RouterSpec::Scores::kSigmoid ? "sigmoid" : "softmax",
      .over = router.sum_to_one ? "chosen" : "all",
      .groups = router.groups,
      .kept_groups = router.kept_groups,
      .group_score = router.group_score == checkpoint::RouterSpec::GroupScore::kBest ? "best" : "best_two",
      .least_sum = router.least_sum,
      .scale = router.scale};
  if (router.has_bias) options.bias = float_weight(prefix + "router.score_bias", {spec_.experts});
  return graph_.moe_route(logits, options);
}

/// Gate, up and down of the own experts, then their biases if they have some.
std::vector<ValueId> StepBuilder::expert_operands(const std::string& prefix) {
  const int64_t hidden = spec_.hidden_size, size = spec_.intermediate_size;
  const Range columns = part_.mlp_columns, all{0, hidden};
  const bool by_expert = partition_.expert_split == partition::ExpertSplit::kWhole;
  const auto leaf = by_expert ? std::nullopt : std::optional(partition_.mlp_block);
  std::vector<ValueId> operands{
      expert_weights(prefix, "gate_proj.weight", {size, hidden}, {columns, all}, std::nullopt),
      expert_weights(prefix, "up_proj.weight", {size, hidden}, {columns, all}, std::nullopt),
      expert_weights(prefix, "down_proj.weight", {hidden, size}, {all, columns}, leaf)};
  if (spec_.mlp_bias) {
    operands.push_back(expert_weights(prefix, "gate_proj.bias", {size}, {columns}, std::nullopt));
    operands.push_back(expert_weights(prefix, "up_proj.bias", {size}, {columns}, std::nullopt));
    operands.push_back(expert_weights(prefix, "down_proj.bias", {hidden}, {all}, std::nullopt));
  }
  return operands;
}

StepBuilder::Partial StepBuilder::experts_partial(ValueId x, ValueId routes, const std::string& prefix) {
  std::vector<ValueId> operands = expert_operands(prefix);
  const graph::Activations activations = activations_of(operands.front());
  const ValueId read = rounded_for(x, prefix + "experts.*.gate_proj.weight");
  operands.insert(operands.begin(), {read, routes});
  const bool by_expert = partition_.expert_split == partition::ExpertSplit::kWhole;
  const BlockSplit& by_column = sums_by_rank() ? rank_blocks_ : partition_.mlp_blocks;
  const BlockSplit& blocks = by_expert ? partition_.expert_blocks : by_column;
  const int64_t block = sums_by_rank() ? part_.mlp_columns.size() : partition_.mlp_block;
  const std::string down = prefix + "experts.*.down_proj.weight";
  const ValueId roots = graph_.moe_experts(std::move(operands), {.experts = part_.experts,
                                                                 .leaf_is_expert = by_expert,
                                                                 .split = blocks,
                                                                 .block = by_expert ? 1 : block,
                                                                 .activation = spec_.activation,
                                                                 .limit = spec_.swiglu_limit,
                                                                 .alpha = spec_.swiglu_alpha,
                                                                 .routes_on_inputs = spec_.router.on_inputs,
                                                                 .activations = activations,
                                                                 .rounding = rounding_for(down)});
  return {roots, &blocks, ""};
}

}  // namespace lockstep::families
