#include "runtime/graph/passes/join_linears.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "runtime/core/check.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/creation_order.h"

namespace lockstep::graph {
namespace {

std::string common_prefix(const std::vector<std::string>& names) {
  std::string prefix = names[0];
  for (const std::string& name : names) {
    const auto differ = std::mismatch(prefix.begin(), prefix.end(), name.begin(), name.end()).first;
    prefix.erase(differ, prefix.end());
  }
  return prefix.substr(0, prefix.rfind('.') + 1);  // whole components; npos + 1 is 0
}

std::string common_suffix(const std::vector<std::string>& names, size_t prefix_size) {
  std::string suffix = names[0].substr(prefix_size);
  for (const std::string& name : names) {
    const auto differ = std::mismatch(suffix.rbegin(), suffix.rend(), name.rbegin(), name.rend() - prefix_size).first;
    suffix.erase(suffix.begin(), differ.base());
  }
  const size_t boundary = suffix.find_first_of("._");
  return boundary == std::string::npos ? std::string() : suffix.substr(boundary);
}

/// "a.q_proj.weight", "a.k_proj.weight", … → "a.qkv_proj.weight"; "gate_proj", "up_proj" → "gate_up_proj".
std::string joined_name(const std::vector<std::string>& names) {
  const std::string prefix = common_prefix(names);
  const std::string suffix = common_suffix(names, prefix.size());
  std::vector<std::string> middles;
  for (const std::string& name : names) {
    middles.push_back(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
  }
  const bool are_letters = std::all_of(middles.begin(), middles.end(), [](const auto& m) { return m.size() == 1; });
  std::string joined = prefix;
  for (size_t i = 0; i < middles.size(); ++i) joined += (i > 0 && !are_letters ? "_" : "") + middles[i];
  return joined + suffix;
}

/// Operand `index` of the linears, concatenated.
Value joined_weight(const Graph& graph, const std::vector<size_t>& linears, size_t index) {
  Value joined{ValueKind::kWeight, {}, {}, {}, {}};
  std::vector<std::string> names;
  int64_t rows = 0;
  for (size_t linear : linears) {
    const Value& part = graph.value(graph.nodes[linear].operands[index]);
    names.push_back(part.name);
    rows += part.type.shape[0];
    joined.slices.insert(joined.slices.end(), part.slices.begin(), part.slices.end());
    joined.type = part.type;
    joined.format = part.format;
  }
  joined.name = joined_name(names);
  std::vector<int64_t> dims = joined.type.shape.dims();
  dims[0] = rows;
  joined.type.shape = Shape(std::move(dims));
  return joined;
}

/// Copies a graph and joins the groups.
class Joiner {
 public:
  Joiner(const Graph& graph, const Uses& uses, const std::vector<LinearGroup>& groups)
      : graph_(graph),
        uses_(uses),
        builder_({graph.name, graph.ranks, graph.rank, graph.rows, graph.slots}),
        now_(graph.values.size()),
        group_of_linear_(graph.nodes.size(), nullptr),
        group_of_reader_(graph.nodes.size(), nullptr) {
    for (const LinearGroup& group : groups) {
      for (size_t linear : group.linears) group_of_linear_[linear] = &group;
      if (group.packed_reader) group_of_reader_[*group.packed_reader] = &group;
    }
  }

  Graph run() && {
    visit_in_creation_order(
        graph_, [this](ValueId id) { copy_value(id); }, [this](size_t index) { visit_node(index); });
    for (const Output& output : graph_.outputs) builder_.output(output.name, now(output.value));
    return std::move(builder_).finish();
  }

 private:
  std::optional<ValueId>& slot_of(ValueId old) { return now_[static_cast<size_t>(old.value)]; }
  ValueId now(ValueId old) {
    LOCKSTEP_CHECK(slot_of(old).has_value(), graph_.value(old).name);
    return *slot_of(old);
  }

  void copy_value(ValueId id) {
    const Value& value = graph_.value(id);
    switch (value.kind) {
      case ValueKind::kInput: slot_of(id) = builder_.input(value.name, value.type); return;
      case ValueKind::kState: slot_of(id) = builder_.state(value.name, value.type); return;
      case ValueKind::kWeight:
        if (!is_dead(id)) slot_of(id) = builder_.weight(value.name, value.type, value.slices, value.format);
        return;
      case ValueKind::kConstant:
        if (!is_dead(id)) slot_of(id) = builder_.constant(value.name, value.constant);
        return;
      case ValueKind::kResult: return;
    }
  }

  /// Whether the value is unused, or used only by a joined linear (which reads the joined weight instead).
  bool is_dead(ValueId id) const {
    if (uses_.is_output(id)) return false;
    const std::vector<size_t>& readers = uses_.nodes_of(id);
    return std::all_of(readers.begin(), readers.end(), [&](size_t node) {
      return group_of_linear_[node] != nullptr && graph_.nodes[node].operands[0] != id;
    });
  }

  void visit_node(size_t index) {
    if (const LinearGroup* group = group_of_linear_[index]) {
      const size_t first = *std::min_element(group->linears.begin(), group->linears.end());
      if (index == first) join(*group);
      return;
    }
    const Node& node = graph_.nodes[index];
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) operands.push_back(now(operand));
    if (group_of_reader_[index]) operands.resize(1);  // gate and up are now the same packed value
    const std::optional<ValueId> result = builder_.add_node(node.op, std::move(operands), node.attributes);
    if (node.result) slot_of(*node.result) = result;
  }

  void join(const LinearGroup& group) {
    const Node& model = graph_.nodes[group.linears[0]];
    std::vector<ValueId> operands{now(model.operands[0])};
    for (size_t i = 1; i < model.operands.size(); ++i) {
      Value weight = joined_weight(graph_, group.linears, i);
      while (graph_.find(weight.name) || !joined_names_.insert(weight.name).second) weight.name += '_';
      operands.push_back(
          builder_.weight(std::move(weight.name), std::move(weight.type), std::move(weight.slices), weight.format));
    }
    const ValueId joined = *builder_.add_node(Op::kLinear, std::move(operands), model.attributes);
    int64_t begin = 0;
    for (size_t linear : group.linears) {
      const ValueId old = *graph_.nodes[linear].result;
      const int64_t width = graph_.value(old).type.shape[1];
      slot_of(old) = group.packed_reader ? joined : builder_.columns(joined, {begin, begin + width});
      begin += width;
    }
  }

  const Graph& graph_;
  const Uses& uses_;
  GraphBuilder builder_;
  std::vector<std::optional<ValueId>> now_;  // by old value: its new id
  std::vector<const LinearGroup*> group_of_linear_;
  std::vector<const LinearGroup*> group_of_reader_;
  std::set<std::string> joined_names_;
};

/// Whether the operands at `index` can become one weight: nothing else reads them, and their formats are equal.
bool can_concatenate(const Graph& graph, const Uses& uses, const std::vector<size_t>& linears, size_t index) {
  for (size_t linear : linears) {
    const ValueId weight = graph.nodes[linear].operands[index];
    if (graph.value(weight).kind != ValueKind::kWeight || !uses.is_read_once(weight)) return false;
    if (graph.value(weight).format != graph.value(graph.nodes[linears[0]].operands[index]).format) return false;
  }
  return true;
}

}  // namespace

Uses::Uses(const Graph& graph) : nodes_(graph.values.size()), is_output_(graph.values.size(), false) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId operand : graph.nodes[i].operands) nodes_[static_cast<size_t>(operand.value)].push_back(i);
  }
  for (const Output& output : graph.outputs) is_output_[static_cast<size_t>(output.value.value)] = true;
}

bool can_join(const Graph& graph, const Uses& uses, const std::vector<size_t>& linears) {
  if (linears.size() < 2) return false;
  const Node& model = graph.nodes[linears[0]];
  if (graph.value(model.operands[0]).kind == ValueKind::kState) return false;  // may change between the linears
  for (size_t linear : linears) {
    const Node& node = graph.nodes[linear];
    if (node.op != Op::kLinear || node.operands[0] != model.operands[0] || node.attributes != model.attributes ||
        node.operands.size() != model.operands.size()) {
      return false;
    }
  }
  for (size_t index = 1; index < model.operands.size(); ++index) {
    if (!can_concatenate(graph, uses, linears, index)) return false;
  }
  return true;
}

Graph join_linears(const Graph& graph, const Uses& uses, const std::vector<LinearGroup>& groups) {
  return Joiner(graph, uses, groups).run();
}

}  // namespace lockstep::graph
