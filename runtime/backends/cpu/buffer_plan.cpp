#include "runtime/backends/cpu/buffer_plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "runtime/backends/cpu/dataflow.h"

namespace lockstep::cpu {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;
using graph::ValueKind;

constexpr int64_t kAlignment = 64;
constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

/// Free ranges of the workspace, by offset; grows at its end. First fit.
class Space {
 public:
  int64_t take(int64_t bytes) {
    bytes = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    for (auto stretch = free_.begin(); stretch != free_.end(); ++stretch) {
      if (stretch->bytes < bytes) continue;
      const int64_t offset = stretch->offset;
      stretch->offset += bytes;
      stretch->bytes -= bytes;
      if (stretch->bytes == 0) free_.erase(stretch);
      return offset;
    }
    end_ += bytes;
    return end_ - bytes;
  }

  void give_back(int64_t offset, int64_t bytes) {
    bytes = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    const auto after = std::find_if(free_.begin(), free_.end(), [&](const Stretch& s) { return s.offset > offset; });
    auto at = free_.insert(after, {offset, bytes});
    if (at + 1 != free_.end() && at->offset + at->bytes == (at + 1)->offset) {
      at->bytes += (at + 1)->bytes;
      free_.erase(at + 1);
    }
    if (at != free_.begin() && (at - 1)->offset + (at - 1)->bytes == at->offset) {
      (at - 1)->bytes += at->bytes;
      free_.erase(at);
    }
  }

  int64_t size() const { return end_; }

 private:
  struct Stretch {
    int64_t offset, bytes;
  };
  std::vector<Stretch> free_;
  int64_t end_ = 0;
};

/// Whether the result has as many rows as its first operand.
bool keeps_rows(Op op) {
  switch (op) {
    case Op::kLinear:
    case Op::kLinearBlocks:
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kRowsOfOwners:
    case Op::kAdd:
    case Op::kJoinPartials:
    case Op::kScale:
    case Op::kSoftCap:
    case Op::kRmsNorm:
    case Op::kLayerNorm:
    case Op::kRope:
    case Op::kAttention:
    case Op::kActivation:
    case Op::kGatedActivation:
    case Op::kMoeRoute:
    case Op::kMoeExperts:
    case Op::kColumns:
    case Op::kScore: return true;
    default: return false;
  }
}

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
  for (const Node& node : graph.nodes) {
    if (!node.result) continue;
    Placement& result = values[node.result->value];
    const Placement& first = values[node.operands.at(0).value];
    const bool is_of_tokens = node.op == Op::kEmbedding || node.op == Op::kLookup;
    result.is_token_rows = is_of_tokens || (keeps_rows(node.op) && first.is_token_rows);
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
  if (const auto slot = slot_of_rows(graph)) use(*slot, kForever);  // not only its readers use it to find padding
  return last;
}

/// Whether `value` exists before any row is computed.
bool precedes_rows(const Graph& graph, ValueId value) {
  if (graph.value(value).kind != ValueKind::kResult) return true;
  for (const Node& node : graph.nodes) {
    if (node.result == value) return true;
    if (node.result && is_float(graph.value(*node.result).type.dtype)) return false;
  }
  return false;
}

}  // namespace

std::optional<ValueId> slot_of_rows(const Graph& graph) {
  std::map<ValueId, ValueId> all_slots;  // from a rank's own slots to all slots: ranks use equally many rows
  std::optional<ValueId> slot;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kOwnSlots) all_slots.emplace(*node.result, node.operands[0]);
    if (node.op != Op::kKvAppend && node.op != Op::kAttention) continue;
    ValueId found = node.operands.at(node.op == Op::kKvAppend ? 2 : 3);
    if (const auto all = all_slots.find(found); all != all_slots.end()) found = all->second;
    if (slot && *slot != found) return std::nullopt;
    slot = found;
  }
  return slot && precedes_rows(graph, *slot) ? slot : std::nullopt;
}

BufferPlan plan_buffers(const Graph& graph, const FusionPlan& fusion) {
  BufferPlan plan;
  plan.values.resize(graph.values.size());
  mark_rows_and_views(graph, Dataflow(graph), plan.values);
  const std::vector<int64_t> last = last_uses(graph, fusion, plan.values);
  Space space;
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
