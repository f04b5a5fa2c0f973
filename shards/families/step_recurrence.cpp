// A layer with the gated delta rule: projections, the convolution of queries, keys and values, the rule over the heads'
// states, the norm of each head under its gate, and the output's partial sums.
#include <fmt/format.h>

#include <utility>

#include "shards/families/step_builder.h"

namespace lockstep::families {
namespace {

using checkpoint::DeltaRuleSpec;
using graph::ValueId;

/// Beside the norm of queries and keys (transformers' l2norm).
constexpr double kNormEpsilon = 1e-6;

static_assert(kRecurrenceBlock <= graph::kMostBlockRows);

}  // namespace

namespace {

/// Rows of several tensors, whole in the other dimension.
struct Stack {
  std::vector<graph::WeightSlice> slices;
  int64_t rows = 0;

  Stack(std::vector<std::pair<std::string, Range>> parts, int64_t columns) {
    for (auto& [tensor, range] : parts) {
      rows += range.size();
      slices.push_back({std::move(tensor), {range, {0, columns}}});
    }
  }
};

}  // namespace

ValueId StepBuilder::stacked_weight(const std::string& name, std::vector<std::pair<std::string, Range>> parts,
                                    int64_t columns) {
  Stack stack(std::move(parts), columns);
  return graph_.weight(name, {shape_.dtype, {stack.rows, columns}}, std::move(stack.slices));
}

ValueId StepBuilder::stacked_matrix(const std::string& name, std::vector<std::pair<std::string, Range>> parts,
                                    int64_t columns) {
  Stack stack(std::move(parts), columns);
  const std::optional<WeightFormat> format = format_of(stack.slices);
  const DType type = product_type(stack.slices.front().tensor);
  return graph_.weight(name, {type, {stack.rows, columns}}, std::move(stack.slices), format);
}

ValueId StepBuilder::recurrent_state(int64_t layer, const std::string& name, DType dtype, std::vector<int64_t> dims) {
  dims.insert(dims.begin(), shape_.slots);
  return graph_.state(fmt::format("recurrence.{}.{}", layer, name), {dtype, Shape(std::move(dims))});
}

StepBuilder::Partial StepBuilder::delta_rule_partial(ValueId x, int64_t layer) {
  const DeltaRuleSpec& rule = spec_.delta_rule;
  const std::string prefix = fmt::format("model.layers.{}.linear_attn.", layer);
  const int64_t hidden = spec_.hidden_size, keys = rule.key_heads * rule.key_dim,
                values = rule.value_heads * rule.value_dim;
  const Range heads = part_.delta_heads.query, key_heads = part_.delta_heads.key_value;
  const Range own_keys = head_columns(key_heads, rule.key_dim), own_values = head_columns(heads, rule.value_dim);
  // q, k and v are three tensors; the rank's rows of all three are one weight.
  const auto of_all = [&](const std::string& kind, int64_t columns) {
    std::vector<std::pair<std::string, Range>> parts;
    for (const char* const name : {"q", "k", "v"}) {
      const bool is_value = *name == 'v';
      const std::string tensor = fmt::format("{}{}_{}.weight", prefix, name, kind);
      tensors_.emplace(tensor, Shape{is_value ? values : keys, columns});
      parts.emplace_back(tensor, is_value ? own_values : own_keys);
    }
    return parts;
  };
  const ValueId projected = product(x, stacked_matrix(prefix + "qkv_proj.weight", of_all("proj", hidden), hidden));
  const int64_t channels = 2 * own_keys.size() + own_values.size();
  const ValueId rows = recurrent_state(layer, "rows", shape_.dtype, {rule.taps - 1 + kRecurrenceBlock, channels});
  const ValueId mixed =
      graph_.causal_conv(projected, stacked_weight(prefix + "qkv_conv.weight", of_all("conv", rule.taps), rule.taps),
                         rows, slot_, position_, "silu");

  const std::string b = prefix + "b_proj.weight", a = prefix + "a_proj.weight";
  for (const std::string& tensor : {b, a}) tensors_.emplace(tensor, Shape{rule.value_heads, hidden});
  const ValueId gates = graph_.linear(x, stacked_weight(prefix + "ba_proj.weight", {{b, heads}, {a, heads}}, hidden),
                                      std::nullopt, DType::kFloat32);
  const auto state = [&](const char* name, std::vector<int64_t> dims) {
    return recurrent_state(layer, name, DType::kFloat32, std::move(dims));
  };
  const Shape of_heads{rule.value_heads};
  const ValueId out = graph_.gated_delta_rule(
      {mixed, gates, weight(prefix + "a_log", of_heads, {heads}), weight(prefix + "dt_bias", of_heads, {heads}),
       state("keys", {2 * key_heads.size(), rule.key_dim, kRecurrenceBlock}),
       state("changes", {2 * heads.size(), kRecurrenceBlock, rule.value_dim}),
       state("decays", {2 * heads.size(), kRecurrenceBlock}),
       state("borders", {2 * heads.size(), rule.key_dim, rule.value_dim}), slot_, position_},
      partition::head_map({rule.value_heads, rule.key_heads}, part_.delta_heads), kNormEpsilon);
  const ValueId normed =
      graph_.rms_norm(out, whole_weight(prefix + "norm.weight", {rule.value_dim}), spec_.norm_epsilon, heads.size());
  const ValueId gate = column_parallel(x, prefix + "z_proj", own_values, {values, hidden}, Bias::kNone);
  return row_parallel(graph_.gated_activation(gate, normed, "silu"), prefix + "o_proj", own_values, {hidden, values},
                      partition_.delta_blocks, rule.value_dim, Bias::kNone);
}

}  // namespace lockstep::families
