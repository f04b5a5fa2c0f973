#include "runtime/graph/graph.h"

#include <algorithm>

#include "runtime/core/check.h"
#include "runtime/core/hash.h"
#include "runtime/graph/operations.h"

namespace lockstep::graph {
namespace {

template <typename T>
const T& attribute_of(const Node& node, std::string_view name) {
  const auto found = node.attributes.find(name);
  LOCKSTEP_CHECK(found != node.attributes.end(), to_string(node.op), name);
  const T* contents = std::get_if<T>(&found->second);
  LOCKSTEP_CHECK(contents != nullptr, to_string(node.op), name);
  return *contents;
}

void add_size(Fingerprint& hash, size_t size) { hash.add(static_cast<uint64_t>(size)); }

void add_value(Fingerprint& hash, const Value& value) {
  hash.add(static_cast<int32_t>(value.kind)).add(value.name).add(static_cast<int32_t>(value.type.dtype));
  add_size(hash, value.type.shape.rank());
  for (int64_t dim : value.type.shape.dims()) hash.add(dim);
  add_size(hash, value.slices.size());
  for (const WeightSlice& slice : value.slices) {
    hash.add(slice.tensor);
    add_size(hash, slice.range.size());
    for (const Range& range : slice.range) hash.add(range.begin).add(range.end);
  }
  add_size(hash, value.constant.size());
  for (float element : value.constant) hash.add(element + 0.0f);  // −0 equals 0, so both must have the same hash
  hash.add(value.format ? to_string(*value.format) : std::string());
}

struct AttributeHasher {
  Fingerprint& hash;

  void operator()(int64_t contents) const { hash.add(contents); }
  void operator()(double contents) const { hash.add(contents + 0.0); }
  void operator()(const std::string& contents) const { hash.add(contents); }
  void operator()(const std::vector<int64_t>& contents) const {
    add_size(hash, contents.size());
    for (int64_t element : contents) hash.add(element);
  }
};

void add_node(Fingerprint& hash, const Node& node) {
  hash.add(to_string(node.op));
  add_size(hash, node.operands.size());
  for (ValueId operand : node.operands) hash.add(operand.value);
  add_size(hash, node.attributes.size());
  for (const auto& [name, attribute] : node.attributes) {
    hash.add(name).add(static_cast<uint64_t>(attribute.index()));
    std::visit(AttributeHasher{hash}, attribute);
  }
  hash.add(node.result ? node.result->value : int32_t{-1});
}

}  // namespace

std::string_view to_string(Op op) { return operation(op).name; }

bool updates_operand(Op op, size_t operand) {
  const std::vector<OperandRule>& rules = operation(op).operands;
  return operand < rules.size() && rules[operand].use == OperandUse::kUpdated;
}

bool is_recurrence(Op op) { return op == Op::kCausalConv || op == Op::kGatedDeltaRule; }

std::optional<size_t> slot_operand(Op op) {
  switch (op) {
    case Op::kKvAppend: return 2;
    case Op::kAttention:
    case Op::kCausalConv: return 3;
    case Op::kGatedDeltaRule: return 8;
    default: return std::nullopt;
  }
}

std::vector<ValueId> sequence_states(const Node& node) {
  switch (node.op) {
    case Op::kKvAppend: return {node.operands.at(1)};
    case Op::kAttention:
      if (node.has("value_columns")) return {node.operands.at(1)};
      return {node.operands.at(1), node.operands.at(2)};
    case Op::kCausalConv: return {node.operands.at(2)};
    case Op::kGatedDeltaRule: return {node.operands.begin() + 4, node.operands.begin() + 8};
    default: return {};
  }
}

bool is_collective(Op op) { return operation(op).is_collective; }

std::optional<Op> op_from_name(std::string_view name) {
  for (const Operation& row : operations()) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

int64_t Node::integer(std::string_view name) const { return attribute_of<int64_t>(*this, name); }
double Node::number(std::string_view name) const { return attribute_of<double>(*this, name); }
const std::string& Node::text(std::string_view name) const { return attribute_of<std::string>(*this, name); }
int64_t Node::integer_or(std::string_view name, int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}
double Node::number_or(std::string_view name, double otherwise) const { return has(name) ? number(name) : otherwise; }
const std::vector<int64_t>& Node::integers(std::string_view name) const {
  return attribute_of<std::vector<int64_t>>(*this, name);
}

const Value& Graph::value(ValueId id) const {
  LOCKSTEP_CHECK(id.value >= 0 && static_cast<size_t>(id.value) < values.size(), id, values.size());
  return values[static_cast<size_t>(id.value)];
}

std::optional<ValueId> Graph::find(std::string_view wanted) const {
  const auto found = std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.name == wanted; });
  if (found == values.end()) return std::nullopt;
  return ValueId(static_cast<int32_t>(found - values.begin()));
}

std::vector<ValueId> Graph::values_of(ValueKind kind) const {
  std::vector<ValueId> found;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].kind == kind) found.emplace_back(static_cast<int32_t>(i));
  }
  return found;
}

int64_t experts_of_row(const Graph& graph, ValueId routes) {
  const auto maker = std::ranges::find_if(graph.nodes, [&](const Node& node) { return node.result == routes; });
  if (maker == graph.nodes.end()) return graph.value(routes).type.shape[1];
  if (maker->op == Op::kMultiply) return experts_of_row(graph, maker->operands[0]);  // by factors of the experts
  return maker->op == Op::kMoeRoute ? maker->integer("chosen") : graph.value(routes).type.shape[1];
}

uint64_t fingerprint(const Graph& graph) {
  Fingerprint hash;
  hash.add(graph.name).add(int32_t{graph.ranks}).add(int32_t{graph.rank}).add(graph.rows).add(graph.slots);
  add_size(hash, graph.values.size());
  for (const Value& value : graph.values) add_value(hash, value);
  add_size(hash, graph.nodes.size());
  for (const Node& node : graph.nodes) add_node(hash, node);
  add_size(hash, graph.outputs.size());
  for (const Output& output : graph.outputs) hash.add(output.name).add(output.value.value);
  return hash.value();
}

}  // namespace lockstep::graph
