#include "runtime/graph/builder.h"

#include "runtime/core/check.h"
#include "runtime/graph/verifier.h"

namespace lockstep::graph {

GraphBuilder::GraphBuilder(GraphHeader header) {
  graph_.name = std::move(header.name);
  graph_.ranks = header.ranks;
  graph_.rank = header.rank;
  graph_.rows = header.rows;
  graph_.slots = header.slots;
}

ValueId GraphBuilder::add_value(Value value) {
  const ValueId next(static_cast<int32_t>(graph_.values.size()));
  const auto [known, is_new] = ids_.try_emplace(value.name, next);
  if (!is_new && value.kind != ValueKind::kInput && value.kind != ValueKind::kResult) {
    LOCKSTEP_CHECK(graph_.value(known->second) == value, value.name, to_string(value.type));
    return known->second;
  }
  LOCKSTEP_CHECK(is_new, value.name);
  graph_.values.push_back(std::move(value));
  return next;
}

ValueId GraphBuilder::input(std::string name, TensorType type) {
  return add_value({ValueKind::kInput, std::move(name), std::move(type), {}, {}});
}

ValueId GraphBuilder::weight(std::string name, TensorType type, std::vector<WeightSlice> slices,
                             std::optional<WeightFormat> format) {
  return add_value({ValueKind::kWeight, std::move(name), std::move(type), std::move(slices), {}, format});
}

ValueId GraphBuilder::state(std::string name, TensorType type) {
  return add_value({ValueKind::kState, std::move(name), std::move(type), {}, {}});
}

ValueId GraphBuilder::constant(std::string name, std::vector<float> contents) {
  const TensorType type{DType::kFloat32, Shape({static_cast<int64_t>(contents.size())})};
  return add_value({ValueKind::kConstant, std::move(name), type, {}, std::move(contents)});
}

std::optional<ValueId> GraphBuilder::add_node(Op op, std::vector<ValueId> operands, Attributes attributes) {
  auto type = infer_type(graph_, op, operands, attributes);
  LOCKSTEP_CHECK(type.has_value(), type.error().message);
  std::optional<ValueId> result;
  if (type.value()) result = add_value({ValueKind::kResult, std::to_string(results_++), *type.value(), {}, {}});
  graph_.nodes.push_back({op, std::move(operands), std::move(attributes), result});
  return result;
}

ValueId GraphBuilder::add_result(Op op, std::vector<ValueId> operands, Attributes attributes) {
  const std::optional<ValueId> result = add_node(op, std::move(operands), std::move(attributes));
  LOCKSTEP_CHECK(result.has_value(), to_string(op));
  return *result;
}

ValueId GraphBuilder::embedding(ValueId ids, ValueId table, int64_t first_row) {
  return add_result(Op::kEmbedding, {ids, table}, {{"first_row", first_row}});
}

ValueId GraphBuilder::linear(ValueId x, ValueId weight, std::optional<ValueId> bias, std::optional<DType> result,
                             Activations activations) {
  std::vector<ValueId> operands{x, weight};
  if (bias) operands.push_back(*bias);
  Attributes attributes;
  if (result && *result != type_of(x).dtype) attributes.emplace("dtype", std::string(to_string(*result)));
  if (activations == Activations::kInt8) attributes.emplace("activations", std::string("int8"));
  return add_result(Op::kLinear, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::linear_blocks(ValueId x, ValueId weight, const BlockSplit& split, int64_t block,
                                    Activations activations) {
  Attributes attributes{{"blocks", split.bounds}, {"block", block}};
  if (activations == Activations::kInt8) attributes.emplace("activations", std::string("int8"));
  return add_result(Op::kLinearBlocks, {x, weight}, std::move(attributes));
}

ValueId GraphBuilder::head_linear(ValueId x, ValueId weight, int64_t heads) {
  return add_result(Op::kHeadLinear, {x, weight}, {{"heads", heads}});
}

ValueId GraphBuilder::all_reduce(ValueId partial, const BlockSplit& split, DType result) {
  return add_result(Op::kAllReduce, {partial}, {{"blocks", split.bounds}, {"dtype", std::string(to_string(result))}});
}

ValueId GraphBuilder::all_gather(ValueId x, std::vector<int64_t> parts) {
  return add_result(Op::kAllGather, {x}, {{"parts", std::move(parts)}});
}

ValueId GraphBuilder::lookup(ValueId index, ValueId table, int64_t offset, std::optional<int64_t> otherwise) {
  Attributes attributes{{"offset", offset}};
  if (otherwise) attributes.emplace("otherwise", *otherwise);
  return add_result(Op::kLookup, {index, table}, std::move(attributes));
}

ValueId GraphBuilder::add(ValueId x, ValueId y) { return add_result(Op::kAdd, {x, y}, {}); }

ValueId GraphBuilder::multiply(ValueId x, ValueId y) { return add_result(Op::kMultiply, {x, y}, {}); }

ValueId GraphBuilder::join_partials(ValueId x, ValueId y) { return add_result(Op::kJoinPartials, {x, y}, {}); }

ValueId GraphBuilder::join_heads(ValueId x, ValueId y, int64_t heads) {
  return add_result(Op::kJoinHeads, {x, y}, {{"heads", heads}});
}

ValueId GraphBuilder::scale(ValueId x, double factor) { return add_result(Op::kScale, {x}, {{"factor", factor}}); }

ValueId GraphBuilder::scale_rows(ValueId x, ValueId factors) { return add_result(Op::kScaleRows, {x, factors}, {}); }

ValueId GraphBuilder::scale_by_position(ValueId x, ValueId position, ValueId factors, int64_t every, int64_t offset) {
  Attributes attributes{{"every", every}};
  if (offset != 0) attributes.emplace("offset", offset);
  return add_result(Op::kScaleByPosition, {x, position, factors}, std::move(attributes));
}

ValueId GraphBuilder::soft_cap(ValueId x, double cap) { return add_result(Op::kSoftCap, {x}, {{"cap", cap}}); }

ValueId GraphBuilder::cut_off(ValueId x, double deviations) {
  return add_result(Op::kCutOff, {x}, {{"deviations", deviations}});
}

ValueId GraphBuilder::fake_quantise(ValueId x, std::string_view codes, std::optional<int64_t> group,
                                    std::optional<ValueId> scale) {
  std::vector<ValueId> operands{x};
  if (scale) operands.push_back(*scale);
  Attributes attributes{{"codes", std::string(codes)}};
  if (group) attributes.emplace("group", *group);
  return add_result(Op::kFakeQuantise, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::take_columns(ValueId x, ValueId order) { return add_result(Op::kTakeColumns, {x, order}, {}); }

ValueId GraphBuilder::match_magnitude(ValueId x, ValueId like, double least) {
  return add_result(Op::kMatchMagnitude, {x, like}, {{"least", least}});
}

ValueId GraphBuilder::weighted_sum(ValueId factors, int64_t first, const std::vector<ValueId>& terms, double offset) {
  std::vector<ValueId> operands{factors};
  operands.insert(operands.end(), terms.begin(), terms.end());
  Attributes attributes{{"first", first}};
  if (offset != 0.0) attributes.emplace("offset", offset);
  return add_result(Op::kWeightedSum, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::rms_norm(ValueId x, std::optional<ValueId> weight, double epsilon, int64_t heads,
                               std::optional<double> offset) {
  std::vector<ValueId> operands{x};
  if (weight) operands.push_back(*weight);
  Attributes attributes{{"epsilon", epsilon}};
  if (heads != 1) attributes.emplace("heads", heads);
  if (offset) attributes.emplace("offset", *offset);
  return add_result(Op::kRmsNorm, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::layer_norm(ValueId x, ValueId weight, std::optional<ValueId> bias, double epsilon,
                                 double offset) {
  std::vector<ValueId> operands{x, weight};
  if (bias) operands.push_back(*bias);
  Attributes attributes{{"epsilon", epsilon}};
  if (offset != 0.0) attributes.emplace("offset", offset);
  return add_result(Op::kLayerNorm, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::rope(std::vector<ValueId> operands, int64_t heads, double scale, std::string pairs) {
  Attributes attributes{{"heads", heads}, {"scale", scale}};
  if (pairs != "halves") attributes.emplace("pairs", std::move(pairs));
  return add_result(Op::kRope, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::clamp_positions(ValueId position, int64_t most) {
  return add_result(Op::kClampPositions, {position}, {{"most", most}});
}

ValueId GraphBuilder::own_slots(ValueId slot, int64_t slots) {
  return add_result(Op::kOwnSlots, {slot}, {{"first_slot", graph_.rank * slots}, {"slots", slots}});
}

ValueId GraphBuilder::rows_of_owners(ValueId x, ValueId slot, int64_t slots, std::vector<int64_t> parts) {
  return add_result(Op::kRowsOfOwners, {x, slot}, {{"slots", slots}, {"parts", std::move(parts)}});
}

void GraphBuilder::kv_append(ValueId rows, ValueId cache, ValueId slot, ValueId position, int64_t window,
                             int64_t pinned) {
  Attributes attributes;
  if (window > 0) attributes.emplace("window", window);
  if (pinned > 0) attributes.emplace("pinned", pinned);
  add_node(Op::kKvAppend, {rows, cache, slot, position}, std::move(attributes));
}

ValueId GraphBuilder::attention(ValueId q, ValueId k_cache, ValueId v_cache, ValueId slot, ValueId position,
                                AttentionOptions options) {
  LOCKSTEP_CHECK(!(options.sinks && options.slopes));
  std::vector<ValueId> operands{q, k_cache, v_cache, slot, position};
  Attributes attributes{
      {"head_map", std::move(options.head_map)}, {"scale", options.scale}, {"kernel", std::move(options.kernel)}};
  if (options.window > 0) attributes.emplace("window", options.window);
  if (options.window > 0 && options.chunked) attributes.emplace("chunked", int64_t{1});
  if (options.pinned > 0) attributes.emplace("pinned", options.pinned);
  if (options.soft_cap > 0) attributes.emplace("soft_cap", options.soft_cap);
  if (options.bound > 0) attributes.emplace("bound", options.bound);
  if (options.value_columns > 0) attributes.emplace("value_columns", options.value_columns);
  if (const auto& per_head = options.sinks ? options.sinks : options.slopes) {
    operands.push_back(*per_head);
    attributes.emplace("per_head", std::string(options.sinks ? "sinks" : "slopes"));
  }
  if (options.pinned_q) operands.push_back(*options.pinned_q);
  return add_result(Op::kAttention, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::causal_conv(ValueId x, ValueId weight, ValueId rows, ValueId slot, ValueId position,
                                  std::string activation) {
  Attributes attributes;
  if (!activation.empty()) attributes.emplace("activation", std::move(activation));
  return add_result(Op::kCausalConv, {x, weight, rows, slot, position}, std::move(attributes));
}

ValueId GraphBuilder::gated_delta_rule(std::vector<ValueId> operands, std::vector<int64_t> head_map, double epsilon) {
  return add_result(Op::kGatedDeltaRule, std::move(operands),
                    {{"head_map", std::move(head_map)}, {"epsilon", epsilon}});
}

ValueId GraphBuilder::activation(ValueId x, std::string activation) {
  return add_result(Op::kActivation, {x}, {{"activation", std::move(activation)}});
}

ValueId GraphBuilder::gated_activation(ValueId gate, ValueId up, std::string activation) {
  return add_result(Op::kGatedActivation, {gate, up}, {{"activation", std::move(activation)}});
}

ValueId GraphBuilder::moe_route(ValueId logits, const RouteOptions& options) {
  Attributes attributes{{"chosen", options.chosen}};
  if (options.scores != "softmax") attributes.emplace("scores", options.scores);
  if (options.over != "chosen") attributes.emplace("over", options.over);
  if (options.groups > 1) {
    attributes.emplace("groups", options.groups);
    attributes.emplace("kept_groups", options.kept_groups);
    attributes.emplace("group_score", options.group_score);
  }
  if (options.least_sum > 0) attributes.emplace("least_sum", options.least_sum);
  if (options.scale != 1.0) attributes.emplace("scale", options.scale);
  std::vector<ValueId> operands{logits};
  if (options.bias) operands.push_back(*options.bias);
  return add_result(Op::kMoeRoute, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::moe_experts(std::vector<ValueId> operands, const ExpertOptions& options) {
  Attributes attributes{{"first_expert", options.experts.begin},
                        {"experts", options.experts.size()},
                        {"leaf", std::string(options.leaf_is_expert ? "expert" : "columns")},
                        {"blocks", options.split.bounds},
                        {"block", options.block},
                        {"activation", options.activation}};
  if (options.limit > 0) attributes.emplace("limit", options.limit);
  if (options.alpha > 0) attributes.emplace("alpha", options.alpha);
  if (options.activations == Activations::kInt8) attributes.emplace("activations", std::string("int8"));
  if (options.routes_on_inputs) attributes.emplace("routes_on", std::string("inputs"));
  if (options.rounding) attributes.emplace("rounds", options.rounding->codes);
  if (options.rounding && options.rounding->group) attributes.emplace("rounds_group", *options.rounding->group);
  return add_result(Op::kMoeExperts, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::columns(ValueId x, Range range) {
  return add_result(Op::kColumns, {x}, {{"begin", range.begin}, {"end", range.end}});
}

ValueId GraphBuilder::select_rows(ValueId x, ValueId rows) { return add_result(Op::kSelectRows, {x, rows}, {}); }

ValueId GraphBuilder::first_rows(ValueId x) { return add_result(Op::kFirstRows, {x}, {}); }

ValueId GraphBuilder::running_slots(ValueId active, ValueId finished) {
  return add_result(Op::kRunningSlots, {active, finished}, {});
}

void GraphBuilder::mark_seen(ValueId seen, ValueId ids, ValueId slot) { add_node(Op::kMarkSeen, {seen, ids, slot}); }

void GraphBuilder::advance(ValueId length, ValueId slot) { add_node(Op::kAdvance, {length, slot}); }

void GraphBuilder::agree(std::vector<ValueId> operands) { add_node(Op::kAgree, std::move(operands)); }

ValueId GraphBuilder::sample(std::vector<ValueId> operands) { return add_result(Op::kSample, std::move(operands), {}); }

ValueId GraphBuilder::accept(std::vector<ValueId> operands) { return add_result(Op::kAccept, std::move(operands), {}); }

ValueId GraphBuilder::score(ValueId logits, ValueId targets, int64_t top) {
  return add_result(Op::kScore, {logits, targets}, {{"top", top}});
}

void GraphBuilder::output(std::string name, ValueId value) { graph_.outputs.push_back({std::move(name), value}); }

Graph GraphBuilder::finish() && {
  const auto verified = verify(graph_);
  LOCKSTEP_CHECK(verified.has_value(), verified.error().message);
  results_ = 0;
  return std::exchange(graph_, Graph{});
}

}  // namespace lockstep::graph
