#include <fmt/ranges.h>

#include "runtime/graph/creation_order.h"
#include "runtime/graph/operations.h"
#include "runtime/graph/scanner.h"
#include "runtime/graph/text.h"

namespace lockstep::graph {
namespace {

/// The shortest text that parses back to the same bits.
std::string written_number(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

struct AttributePrinter {
  std::string operator()(int64_t contents) const { return fmt::format("{}", contents); }
  std::string operator()(double contents) const { return written_number(contents); }
  // Qualified, because argument-dependent lookup would prefer std::quoted where a header includes it.
  std::string operator()(const std::string& contents) const { return graph::quoted(contents); }
  std::string operator()(const std::vector<int64_t>& contents) const {
    return fmt::format("[{}]", fmt::join(contents, ","));
  }
};

std::string written_slice(const WeightSlice& slice) {
  std::string text = written_name(slice.tensor) + '[';
  for (size_t i = 0; i < slice.range.size(); ++i) text += (i == 0 ? "" : ",") + to_string(slice.range[i]);
  return text + ']';
}

std::string written_slices(const std::vector<WeightSlice>& slices) {
  if (slices.size() == 1) return written_slice(slices[0]);
  std::string text = "concat(";
  for (size_t i = 0; i < slices.size(); ++i) text += (i == 0 ? "" : ", ") + written_slice(slices[i]);
  return text + ')';
}

std::string written_definition(const Value& value) {
  switch (value.kind) {
    case ValueKind::kInput: return "input";
    case ValueKind::kWeight: return "weight " + written_slices(value.slices);
    case ValueKind::kState: return "state";
    case ValueKind::kConstant: return fmt::format("constant [{}]", fmt::join(value.constant, ","));
    case ValueKind::kResult: break;
  }
  return {};
}

std::string written_reference(const Graph& graph, ValueId id) { return '%' + written_name(graph.value(id).name); }

std::string written_node(const Graph& graph, const Node& node) {
  std::string text;
  if (node.result) text = written_reference(graph, *node.result) + " = ";
  text += fmt::format("{}(", to_string(node.op));
  for (size_t i = 0; i < node.operands.size(); ++i) {
    text += (i == 0 ? "" : ", ") + written_reference(graph, node.operands[i]);
  }
  text += ')';
  for (const auto& [name, contents] : node.attributes) {
    text += fmt::format(" {}={}", name, std::visit(AttributePrinter{}, contents));
  }
  if (node.result) text += " : " + to_string(graph.value(*node.result).type);
  return text;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text = fmt::format("graph {} tp={} rank={} rows={} slots={} {{\n", written_name(graph.name), graph.ranks,
                                 graph.rank, graph.rows, graph.slots);
  visit_in_creation_order(
      graph,
      [&](ValueId id) {
        const Value& value = graph.value(id);
        text += fmt::format("  {} = {} : {}{}\n", written_reference(graph, id), written_definition(value),
                            to_string(value.type), value.format ? " as " + to_string(*value.format) : "");
      },
      [&](size_t index) { text += "  " + written_node(graph, graph.nodes[index]) + '\n'; });
  for (const Output& output : graph.outputs) {
    text += fmt::format("  output {} = {}\n", written_name(output.name), written_reference(graph, output.value));
  }
  return text + "}\n";
}

}  // namespace lockstep::graph
