#include "runtime/backends/cpu/buffer_plan.h"

#include <algorithm>
#include <limits>

#include "runtime/device/first_fit.h"
#include "runtime/graph/dataflow.h"
#include "runtime/graph/token_rows.h"

namespace lockstep::cpu {
namespace {

using graph::Dataflow;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;
using graph::ValueKind;

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

/// Whether `node` makes partial sums and writes only the rows in use.
bool makes_planes(const Node& node) {
  return node.op == Op::kLinearBlocks || node.op == Op::kMoeExperts || node.op == Op::kJoinPartials;
}

/// Whether every reader supports densely packed planes.
bool only_plane_readers(const Graph& graph, const Dataflow& flow, ValueId value) {
  return !flow.is_output(value) && std::ranges::all_of(flow.readers(value), [&](size_t reader) {
    const Op op = graph.nodes[reader].op;
    return op == Op::kAllReduce || op == Op::kJoinPartials;
  });
}

/// Whether `value` can be written directly into a joined result: its maker supports any row stride, and its only reader
/// is the join of partial sums.
bool is_joined_in_place(const Graph& graph, const Dataflow& flow, ValueId value) {
  const std::optional<size_t> maker = flow.maker(value);
  if (!maker || !flow.only_reader(value)) return false;
  const Op op = graph.nodes[*maker].op;
  return op == Op::kLinearBlocks || op == Op::kMoeExperts;
}

/// Turns the operands of a join that can be written directly into its result into views of it.
void mark_joined_views(const Graph& graph, const Dataflow& flow, const Node& join, std::vector<Placement>& values) {
  const Placement& result = values[join.result->value];
  int64_t column = 0;
  for (ValueId operand : join.operands) {
    Placement& part = values[operand.value];
    if (is_joined_in_place(graph, flow, operand) && part.is_token_rows == result.is_token_rows) {
      part.is_view = true;
      part.base = *join.result;
      part.first_column = column;
      part.packs_planes = result.packs_planes;
    }
    column += graph.value(operand).type.shape[2];
  }
}

void mark_rows_and_views(const Graph& graph, const Dataflow& flow, std::vector<Placement>& values) {
  const std::vector<bool> token_rows = graph::token_rows(graph);
  for (const Node& node : graph.nodes) {
    if (!node.result) continue;
    Placement& result = values[node.result->value];
    const Placement& first = values[node.operands.at(0).value];
    result.is_token_rows = token_rows[static_cast<size_t>(node.result->value)];
    if (makes_planes(node)) result.packs_planes = only_plane_readers(graph, flow, *node.result);
    if (node.op == Op::kJoinPartials) mark_joined_views(graph, flow, node, values);
    if (flow.is_view(node)) {
      result.is_view = true;
      result.base = first.is_view ? first.base : node.operands[0];
      result.first_column = node.integer("begin") + (first.is_view ? first.first_column : 0);
    }
  }
}

/// The last node whose stage reads or writes each value; a view counts for its base.
std::vector<int64_t> last_uses(const Graph& graph, const FusionPlan& fusion, const std::vector<Placement>& values) {
  std::vector<int64_t> last(values.size(), -1);
  const auto use = [&](ValueId value, int64_t at) {
    const Placement& placement = values[value.value];
    int64_t& when = last[placement.is_view ? placement.base.value : value.value];
    when = std::max(when, at);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto stage = static_cast<int64_t>(fusion.stage_of(i));
    for (ValueId operand : graph.nodes[i].operands) use(operand, stage);
    if (graph.nodes[i].result) use(*graph.nodes[i].result, stage);
  }
  for (const graph::Output& output : graph.outputs) use(output.value, kForever);
  if (const auto slot = graph::slot_of_rows(graph))
    use(*slot, kForever);  // not only its readers use it to find padding
  return last;
}

}  // namespace

BufferPlan plan_buffers(const Graph& graph, const FusionPlan& fusion) {
  BufferPlan plan;
  plan.values.resize(graph.values.size());
  mark_rows_and_views(graph, Dataflow(graph), plan.values);
  const std::vector<int64_t> last = last_uses(graph, fusion, plan.values);
  device::FirstFit space;
  const auto place = [&](ValueId value) {
    if (plan.values[value.value].is_view) value = plan.values[value.value].base;
    const bool is_elsewhere =
        graph.value(value).kind == ValueKind::kWeight || graph.value(value).kind == ValueKind::kState;
    Placement& placement = plan.values[value.value];
    if (is_elsewhere || placement.is_workspace) return;  // the latter: a view's base, placed before
    placement.is_workspace = true;
    placement.offset = space.take(graph.value(value).type.bytes());
  };
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const ValueKind kind = graph.values[i].kind;
    if (kind == ValueKind::kInput || kind == ValueKind::kConstant) place(ValueId(static_cast<int32_t>(i)));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (fusion.stage_of(i) != i) continue;
    if (graph.nodes[i].result) place(*graph.nodes[i].result);
    for (size_t part : fusion.parts_of(i)) {
      if (graph.nodes[part].result) place(*graph.nodes[part].result);
    }
    for (size_t v = 0; v < plan.values.size(); ++v) {
      const bool is_result = graph.values[v].kind == ValueKind::kResult && plan.values[v].is_workspace;
      if (!is_result || last[v] != static_cast<int64_t>(i)) continue;
      space.give_back(plan.values[v].offset, graph.values[v].type.bytes());
    }
  }
  plan.bytes = space.size();
  return plan;
}

}  // namespace lockstep::cpu
