// A layer's MLP: plain, gated, or a mixture of gated experts.
#include <fmt/format.h>

#include "shards/families/step_builder.h"

namespace lockstep::families {

using checkpoint::Mlp;
using graph::ValueId;

StepBuilder::Partial StepBuilder::mlp_partial(ValueId x, int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.mlp.", layer);
  return spec_.mlp == Mlp::kExperts ? experts_partial(x, prefix) : dense_partial(x, prefix);
}

StepBuilder::Partial StepBuilder::dense_partial(ValueId x, const std::string& prefix) {
  const Range columns = part_.mlp_columns;
  const Shape up_shape{spec_.intermediate_size, spec_.hidden_size};
  const Bias bias = bias_if(spec_.mlp_bias);
  std::optional<ValueId> gate;
  if (spec_.mlp == Mlp::kGated) gate = column_parallel(x, prefix + "gate_proj", columns, up_shape, bias);
  const ValueId up = column_parallel(x, prefix + "up_proj", columns, up_shape, bias);
  const ValueId inner =
      gate ? graph_.gated_activation(*gate, up, spec_.activation) : graph_.activation(up, spec_.activation);
  return row_parallel(inner, prefix + "down_proj", columns, {spec_.hidden_size, spec_.intermediate_size},
                      partition_.mlp_blocks, partition_.mlp_block, bias);
}

/// The slices `ranges` of every own expert's tensor, one expert after the other.
ValueId StepBuilder::expert_weights(const std::string& prefix, const std::string& name, const Shape& whole,
                                    const std::vector<Range>& ranges) {
  std::vector<graph::WeightSlice> slices;
  for (int64_t expert = part_.experts.begin; expert < part_.experts.end; ++expert) {
    const std::string tensor = fmt::format("{}experts.{}.{}", prefix, expert, name);
    tensors_.emplace(tensor, whole);
    slices.push_back({tensor, ranges});
  }
  std::vector<int64_t> dims;
  for (const Range& range : ranges) dims.push_back(range.size());
  dims[0] *= part_.experts.size();
  return graph_.weight(prefix + "experts." + name, {shape_.dtype, Shape(std::move(dims))}, std::move(slices));
}

StepBuilder::Partial StepBuilder::experts_partial(ValueId x, const std::string& prefix) {
  const int64_t hidden = spec_.hidden_size;
  const Range columns = part_.mlp_columns, all{0, hidden};
  const Shape up_shape{spec_.intermediate_size, hidden}, down_shape{hidden, spec_.intermediate_size};
  std::optional<ValueId> router_bias;
  if (spec_.mlp_bias) router_bias = whole_weight(prefix + "router.bias", {spec_.experts});
  const ValueId scores =
      graph_.linear(x, whole_weight(prefix + "router.weight", {spec_.experts, hidden}), router_bias, DType::kFloat32);
  std::vector<ValueId> operands{
      x, graph_.moe_route(scores, spec_.experts_per_token, spec_.routes_sum_to_one ? "chosen" : "all"),
      expert_weights(prefix, "gate_proj.weight", up_shape, {columns, all}),
      expert_weights(prefix, "up_proj.weight", up_shape, {columns, all}),
      expert_weights(prefix, "down_proj.weight", down_shape, {all, columns})};
  if (spec_.mlp_bias) {
    operands.push_back(expert_weights(prefix, "gate_proj.bias", {spec_.intermediate_size}, {columns}));
    operands.push_back(expert_weights(prefix, "up_proj.bias", {spec_.intermediate_size}, {columns}));
    operands.push_back(expert_weights(prefix, "down_proj.bias", {hidden}, {all}));
  }
  const bool by_expert = partition_.expert_split == partition::ExpertSplit::kWhole;
  const BlockSplit& by_column = sums_by_rank() ? rank_blocks_ : partition_.mlp_blocks;
  const BlockSplit& blocks = by_expert ? partition_.expert_blocks : by_column;
  const int64_t block = sums_by_rank() ? columns.size() : partition_.mlp_block;
  const ValueId roots = graph_.moe_experts(std::move(operands), {.experts = part_.experts,
                                                                 .leaf_is_expert = by_expert,
                                                                 .split = blocks,
                                                                 .block = by_expert ? 1 : block,
                                                                 .activation = spec_.activation,
                                                                 .limit = spec_.swiglu_limit,
                                                                 .alpha = spec_.swiglu_alpha});
  return {roots, &blocks, ""};
}

}  // namespace lockstep::families
