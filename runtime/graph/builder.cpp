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
  const std::optional<ValueId> present = graph_.find(value.name);
  if (present && value.kind != ValueKind::kInput && value.kind != ValueKind::kResult) {
    LOCKSTEP_CHECK(graph_.value(*present) == value, value.name, to_string(value.type));
    return *present;
  }
  LOCKSTEP_CHECK(!present, value.name);
  graph_.values.push_back(std::move(value));
  return ValueId(static_cast<int32_t>(graph_.values.size()) - 1);
}

ValueId GraphBuilder::input(std::string name, TensorType type) {
  return add_value({ValueKind::kInput, std::move(name), std::move(type), {}, {}});
}

ValueId GraphBuilder::weight(std::string name, TensorType type, std::vector<WeightSlice> slices) {
  return add_value({ValueKind::kWeight, std::move(name), std::move(type), std::move(slices), {}});
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

ValueId GraphBuilder::linear(ValueId x, ValueId weight, std::optional<ValueId> bias, std::optional<DType> result) {
  std::vector<ValueId> operands{x, weight};
  if (bias) operands.push_back(*bias);
  Attributes attributes;
  if (result && *result != type_of(x).dtype) attributes.emplace("dtype", std::string(to_string(*result)));
  return add_result(Op::kLinear, std::move(operands), std::move(attributes));
}

ValueId GraphBuilder::linear_blocks(ValueId x, ValueId weight, const BlockSplit& split, int64_t block) {
  return add_result(Op::kLinearBlocks, {x, weight}, {{"blocks", split.bounds}, {"block", block}});
}

ValueId GraphBuilder::all_reduce(ValueId partial, const BlockSplit& split, DType result) {
  return add_result(Op::kAllReduce, {partial}, {{"blocks", split.bounds}, {"dtype", std::string(to_string(result))}});
}

ValueId GraphBuilder::all_gather(ValueId x, std::vector<int64_t> parts) {
  return add_result(Op::kAllGather, {x}, {{"parts", std::move(parts)}});
}

ValueId GraphBuilder::add(ValueId x, ValueId y) { return add_result(Op::kAdd, {x, y}, {}); }

ValueId GraphBuilder::rms_norm(ValueId x, ValueId weight, double epsilon) {
  return add_result(Op::kRmsNorm, {x, weight}, {{"epsilon", epsilon}});
}

ValueId GraphBuilder::rope(ValueId x, ValueId position, ValueId frequencies, int64_t heads, double scale) {
  return add_result(Op::kRope, {x, position, frequencies}, {{"heads", heads}, {"scale", scale}});
}

void GraphBuilder::kv_append(ValueId rows, ValueId cache, ValueId slot, ValueId position) {
  add_node(Op::kKvAppend, {rows, cache, slot, position});
}

ValueId GraphBuilder::attention(ValueId q, ValueId k_cache, ValueId v_cache, ValueId slot, ValueId position,
                                std::vector<int64_t> head_map, double scale, std::string kernel) {
  return add_result(Op::kAttention, {q, k_cache, v_cache, slot, position},
                    {{"head_map", std::move(head_map)}, {"scale", scale}, {"kernel", std::move(kernel)}});
}

ValueId GraphBuilder::gated_activation(ValueId gate, ValueId up, std::string activation) {
  return add_result(Op::kGatedActivation, {gate, up}, {{"activation", std::move(activation)}});
}

ValueId GraphBuilder::columns(ValueId x, Range range) {
  return add_result(Op::kColumns, {x}, {{"begin", range.begin}, {"end", range.end}});
}

ValueId GraphBuilder::select_rows(ValueId x, ValueId rows) { return add_result(Op::kSelectRows, {x, rows}, {}); }

ValueId GraphBuilder::running_slots(ValueId active, ValueId finished) {
  return add_result(Op::kRunningSlots, {active, finished}, {});
}

void GraphBuilder::mark_seen(ValueId seen, ValueId ids, ValueId slot) { add_node(Op::kMarkSeen, {seen, ids, slot}); }

void GraphBuilder::advance(ValueId length, ValueId slot) { add_node(Op::kAdvance, {length, slot}); }

void GraphBuilder::agree(std::vector<ValueId> operands) { add_node(Op::kAgree, std::move(operands)); }

ValueId GraphBuilder::sample(std::vector<ValueId> operands) { return add_result(Op::kSample, std::move(operands), {}); }

void GraphBuilder::output(std::string name, ValueId value) { graph_.outputs.push_back({std::move(name), value}); }

Graph GraphBuilder::finish() && {
  const auto verified = verify(graph_);
  LOCKSTEP_CHECK(verified.has_value(), verified.error().message);
  results_ = 0;
  return std::exchange(graph_, Graph{});
}

}  // namespace lockstep::graph
