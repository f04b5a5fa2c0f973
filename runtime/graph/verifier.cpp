#include "runtime/graph/verifier.h"

#include <cmath>
#include <unordered_set>

#include "runtime/core/check.h"
#include "runtime/graph/coded_weights.h"
#include "runtime/graph/operations.h"

namespace lockstep::graph {
namespace {

Error unsound(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

/// A name for an error message, shortened: names come from files and may be long.
std::string shown(std::string_view name) {
  constexpr size_t kLongest = 80;
  return name.size() <= kLongest ? fmt::format("\"{}\"", name) : fmt::format("\"{}…\"", name.substr(0, kLongest));
}

// ---- one operation ------------------------------------------------------------------------------------------------

std::string_view kind_in_words(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInteger: return "an integer";
    case AttributeKind::kNumber: return "a finite number";
    case AttributeKind::kText: return "a text";
    case AttributeKind::kIntegers: return "a list of integers";
  }
  return "an attribute";
}

Result<void> check_attributes(const Operation& row, const Attributes& attributes) {
  size_t known = 0;
  for (const AttributeRule& rule : row.attributes) {
    const auto found = attributes.find(rule.name);
    if (found == attributes.end()) {
      if (!rule.required) continue;
      return unsound(fmt::format("attribute {}: found none, expected {}", rule.name, kind_in_words(rule.kind)));
    }
    ++known;
    const double* number = std::get_if<double>(&found->second);
    if (found->second.index() != static_cast<size_t>(rule.kind) || (number && !std::isfinite(*number))) {
      return unsound(
          fmt::format("attribute {}: found something else, expected {}", rule.name, kind_in_words(rule.kind)));
    }
  }
  if (known == attributes.size()) return ok();
  for (const auto& [name, contents] : attributes) {
    bool is_known = false;
    for (const AttributeRule& rule : row.attributes) is_known = is_known || rule.name == name;
    if (!is_known) return unsound(fmt::format("attribute {}: not one of this operation's", shown(name)));
  }
  return ok();
}

Result<void> check_operands(const Graph& graph, const Operation& row, const std::vector<ValueId>& operands,
                            Symbols& symbols) {
  size_t required = 0;
  for (const OperandRule& rule : row.operands) required += rule.use == OperandUse::kOptional ? 0 : 1;
  if (operands.size() < required || operands.size() > row.operands.size()) {
    return unsound(fmt::format("found {} operands, expected {}", operands.size(),
                               required == row.operands.size()
                                   ? fmt::format("{}", required)
                                   : fmt::format("{} to {}", required, row.operands.size())));
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const OperandRule& rule = row.operands[i];
    if (operands[i].value < 0 || static_cast<size_t>(operands[i].value) >= graph.values.size()) {
      return unsound(fmt::format("operand {} ({}): found value number {}, expected one of the graph's {}", i, rule.name,
                                 operands[i], graph.values.size()));
    }
    const Value& value = graph.value(operands[i]);
    if (!symbols.match(rule.type, value.type)) {
      return unsound(fmt::format("operand {} ({}): found {} of type {}, expected {}{}", i, rule.name, shown(value.name),
                                 to_string(value.type), rule.type, symbols.describe(rule.type)));
    }
    if (value.format && !may_be_coded(row.op, i)) {
      return unsound(fmt::format("operand {} ({}): found {} in {}, expected elements", i, rule.name, shown(value.name),
                                 to_string(*value.format)));
    }
    if (rule.use == OperandUse::kUpdated && value.kind != ValueKind::kState) {
      return unsound(fmt::format("operand {} ({}): found {}, expected a state, because it is updated", i, rule.name,
                                 shown(value.name)));
    }
  }
  return ok();
}

/// The type of a node's result. An error names only the operand or attribute.
Result<std::optional<TensorType>> infer_result(const Graph& graph, const Node& node) {
  const Operation& row = operation(node.op);
  OperationUse use{graph, node, {}};
  use.symbols.bind_size("S", graph.slots);
  LOCKSTEP_TRY_VOID(check_attributes(row, node.attributes));
  LOCKSTEP_TRY_VOID(check_operands(graph, row, node.operands, use.symbols));
  if (row.rule != nullptr) LOCKSTEP_TRY_VOID(row.rule(use));
  if (row.result.empty()) return std::optional<TensorType>();
  return std::optional<TensorType>(use.symbols.resolve(row.result));
}

// ---- the graph ----------------------------------------------------------------------------------------------------

/// Whether every dimension is valid and the bytes of the whole tensor fit in 64 bits.
bool is_countable(const TensorType& type) {
  int64_t bytes = static_cast<int64_t>(size_of(type.dtype));
  for (int64_t dim : type.shape.dims()) {
    if (dim < 0 || dim > kMaxSize || __builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes)) return false;
  }
  return true;
}

Result<void> check_header(const Graph& graph) {
  if (graph.ranks < 1 || graph.ranks > kMaxRanks || graph.rank < 0 || graph.rank >= graph.ranks) {
    return unsound(fmt::format("[graph] header: found rank {} of {}, expected 0 to tp - 1 and tp at most {}",
                               graph.rank, graph.ranks, kMaxRanks));
  }
  if (graph.rows < 0 || graph.rows > kMaxSize || graph.slots < 0 || graph.slots > kMaxSize) {
    return unsound(fmt::format("[graph] header: found {} rows and {} slots, expected sizes", graph.rows, graph.slots));
  }
  return ok();
}

Result<void> check_slices(const Value& value) {
  const std::vector<int64_t>& dims = value.type.shape.dims();
  if (value.slices.empty()) return unsound("found a weight without slices, expected at least one");
  int64_t rows = 0;
  for (const WeightSlice& slice : value.slices) {
    if (slice.range.size() != dims.size() || dims.empty()) {
      return unsound(fmt::format("slice of {}: found {} ranges, expected one for each of {} dimensions",
                                 shown(slice.tensor), slice.range.size(), dims.size()));
    }
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const Range& range = slice.range[axis];
      const bool is_range = 0 <= range.begin && range.begin <= range.end && range.end <= kMaxSize;
      if (!is_range || (axis > 0 && range.size() != dims[axis])) {
        return unsound(fmt::format("slice of {}: found {} in dimension {}, expected {} indices", shown(slice.tensor),
                                   to_string(range), axis, dims[axis]));
      }
    }
    rows += slice.range[0].size();
    if (rows > dims[0]) break;
  }
  if (rows == dims[0]) return ok();
  return unsound(fmt::format("slices: found {} rows together, expected {}", rows, dims[0]));
}

Result<void> check_constant(const Value& value) {
  if (value.type.dtype != DType::kFloat32 || value.type.shape != Shape({static_cast<int64_t>(value.constant.size())})) {
    return unsound(fmt::format("found {} elements for type {}, expected f32[{}]", value.constant.size(),
                               to_string(value.type), value.constant.size()));
  }
  for (float element : value.constant) {
    if (std::isnan(element)) return unsound("found NaN, expected numbers: a graph has to equal itself");
  }
  return ok();
}

Result<void> check_format(const Value& value) {
  if (!value.format) return ok();
  const bool is_matrix = value.type.shape.rank() == 2 && is_float(value.type.dtype);
  if (value.kind == ValueKind::kWeight && is_matrix && value.format->group <= kMaxSize) return ok();
  return unsound(fmt::format("found format {} on type {}, expected it on weights that are matrices",
                             to_string(*value.format), to_string(value.type)));
}

Result<void> check_value(const Value& value) {
  if (value.name.empty()) return unsound("found an empty name, expected a name");
  if (value.kind != ValueKind::kResult && value.name.find_first_not_of("0123456789") == std::string::npos) {
    return unsound("found a name of digits, expected one with a letter: numbers are results");
  }
  if (!is_countable(value.type)) {
    return unsound(fmt::format("found type {}, expected dimensions from 0 to {} and bytes that fit 63 bits",
                               to_string(value.type), kMaxSize));
  }
  LOCKSTEP_TRY_VOID(check_format(value));
  if (value.kind == ValueKind::kWeight) return check_slices(value);
  if (!value.slices.empty()) return unsound("found slices, expected them on weights only");
  if (value.kind == ValueKind::kConstant) return check_constant(value);
  if (!value.constant.empty()) return unsound("found contents, expected them on constants only");
  return ok();
}

Result<void> check_values(const Graph& graph) {
  std::unordered_set<std::string_view> names;
  for (const Value& value : graph.values) {
    if (auto checked = check_value(value); !checked) {
      return unsound(fmt::format("[graph] value {}: {}", shown(value.name), checked.error().message));
    }
    if (!names.insert(value.name).second) {
      return unsound(fmt::format("[graph] value {}: found the name twice, expected it once", shown(value.name)));
    }
  }
  return ok();
}

/// Visits the nodes in order and tracks which values exist. Values are in order of creation: a node may use values
/// before its own result, and a node without a result may use values before the next result.
class NodeVerifier {
 public:
  explicit NodeVerifier(const Graph& graph) : graph_(graph), producer_(graph.values.size(), nullptr) {}

  Result<void> run() {
    find_limits();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (auto checked = check_node(i); !checked) {
        return unsound(
            fmt::format("[graph] node {} ({}): {}", i, to_string(graph_.nodes[i].op), checked.error().message));
      }
    }
    return check_all_produced();
  }

 private:
  void find_limits() {
    limits_.resize(graph_.nodes.size());
    auto limit = static_cast<int64_t>(graph_.values.size());
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (graph_.nodes[i].result) limit = graph_.nodes[i].result->value;
      limits_[i] = limit;
    }
  }

  Result<void> check_node(size_t index) {
    const Node& node = graph_.nodes[index];
    LOCKSTEP_TRY_VOID(check_order(index));
    LOCKSTEP_TRY(const std::optional<TensorType> type, infer_result(graph_, node));
    LOCKSTEP_TRY_VOID(check_result(node, type));
    return check_blocks_agree(node);
  }

  Result<void> check_order(size_t index) const {
    for (ValueId operand : graph_.nodes[index].operands) {
      // infer_result reports this case.
      if (operand.value < 0 || static_cast<size_t>(operand.value) >= graph_.values.size()) continue;
      const Value& value = graph_.value(operand);
      const bool is_made = value.kind != ValueKind::kResult || producer_[static_cast<size_t>(operand.value)];
      if (!is_made || operand.value >= limits_[index]) {
        return unsound(
            fmt::format("found operand {} before it exists, expected its definition first", shown(value.name)));
      }
    }
    return ok();
  }

  Result<void> check_result(const Node& node, const std::optional<TensorType>& type) {
    if (node.result.has_value() != type.has_value()) {
      return unsound(node.result ? "found a result, expected none" : "found no result, expected one");
    }
    if (!type) return ok();
    const int32_t id = node.result->value;
    if (id <= last_result_ || static_cast<size_t>(id) >= graph_.values.size()) {
      return unsound(
          fmt::format("found result number {}, expected one after {}: results are in order", id, last_result_));
    }
    const Value& value = graph_.value(*node.result);
    if (value.kind != ValueKind::kResult) {
      return unsound(fmt::format("found {} as the result, expected a value that is made here", shown(value.name)));
    }
    if (value.type != *type) {
      return unsound(fmt::format("found result {} of type {}, expected {}", shown(value.name), to_string(value.type),
                                 to_string(*type)));
    }
    last_result_ = id;
    producer_[static_cast<size_t>(id)] = &node;
    return ok();
  }

  /// The node that cut a partial sum into leaves; null for any other value.
  const Node* cutter_of(ValueId partial) const {
    const Node* producer = producer_[static_cast<size_t>(partial.value)];
    while (producer && producer->op == Op::kJoinPartials) {
      producer = producer_[static_cast<size_t>(producer->operands[0].value)];
    }
    return producer && producer->has("blocks") && producer->op != Op::kAllReduce ? producer : nullptr;
  }

  /// Checks that partial sums are joined and reduced with the tree by which they were cut.
  Result<void> check_blocks_agree(const Node& node) const {
    if (node.op != Op::kAllReduce && node.op != Op::kJoinPartials) return ok();
    const Node* cutter = cutter_of(node.operands[0]);
    const Node* other = node.op == Op::kAllReduce ? &node : cutter_of(node.operands[1]);
    if (!cutter || !other || cutter->integers("blocks") == other->integers("blocks")) return ok();
    return unsound(fmt::format("attribute blocks: found bounds unlike those of the {} below, expected the same",
                               to_string(cutter->op)));
  }

  Result<void> check_all_produced() const {
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (graph_.values[i].kind == ValueKind::kResult && !producer_[i]) {
        return unsound(
            fmt::format("[graph] value {}: found a result that no node makes", shown(graph_.values[i].name)));
      }
    }
    return ok();
  }

  const Graph& graph_;
  std::vector<const Node*> producer_;  // by value
  std::vector<int64_t> limits_;        // by node: its operands have smaller ids
  int32_t last_result_ = -1;
};

Result<void> check_outputs(const Graph& graph) {
  std::unordered_set<std::string_view> names;
  for (const Output& output : graph.outputs) {
    if (output.value.value < 0 || static_cast<size_t>(output.value.value) >= graph.values.size()) {
      return unsound(fmt::format("[graph] output {}: found value number {}, expected one of the graph's {}",
                                 shown(output.name), output.value, graph.values.size()));
    }
    if (output.name.empty() || !names.insert(output.name).second) {
      return unsound(
          fmt::format("[graph] output {}: found the name empty or twice, expected it once", shown(output.name)));
    }
  }
  return ok();
}

}  // namespace

Result<std::optional<TensorType>> infer_type(const Graph& graph, Op op, const std::vector<ValueId>& operands,
                                             const Attributes& attributes) {
  LOCKSTEP_TRY_VOID(check_header(graph));
  auto type = infer_result(graph, Node{op, operands, attributes, std::nullopt});
  if (type.has_value()) return type;
  return unsound(fmt::format("[graph] {}: {}", to_string(op), type.error().message));
}

Result<void> verify(const Graph& graph) {
  LOCKSTEP_TRY_VOID(check_header(graph));
  LOCKSTEP_TRY_VOID(check_values(graph));
  LOCKSTEP_TRY_VOID(NodeVerifier(graph).run());
  return check_outputs(graph);
}

std::vector<size_t> updated_operands(Op op) {
  std::vector<size_t> updated;
  const std::vector<OperandRule>& rules = operation(op).operands;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].use == OperandUse::kUpdated) updated.push_back(i);
  }
  return updated;
}

}  // namespace lockstep::graph
