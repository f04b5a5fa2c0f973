#include "runtime/backends/cpu/buffer_plan.h"

#include <algorithm>
#include <limits>

namespace lockstep::cpu {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;
using graph::ValueKind;

constexpr int64_t kAlignment = 64;
constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

/// Free stretches of the workspace, by offset; grows at its end. First fit.
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

bool is_output(const Graph& graph, ValueId value) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(), [&](const auto& o) { return o.value == value; });
}

/// Whether the result has the rows of its first operand.
bool keeps_rows(Op op) {
  switch (op) {
    case Op::kLinear:
    case Op::kLinearBlocks:
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kAdd:
    case Op::kRmsNorm:
    case Op::kRope:
    case Op::kAttention:
    case Op::kGatedActivation:
    case Op::kColumns: return true;
    default: return false;
  }
}

bool only_all_reduce_reads(const Graph& graph, ValueId value) {
  if (is_output(graph, value)) return false;
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return node.op == Op::kAllReduce ||
           std::find(node.operands.begin(), node.operands.end(), value) == node.operands.end();
  });
}

void mark_rows_and_views(const Graph& graph, std::vector<Placement>& values) {
  for (const Node& node : graph.nodes) {
    if (!node.result) continue;
    Placement& result = values[node.result->value];
    const Placement& first = values[node.operands.at(0).value];
    result.is_token_rows = node.op == Op::kEmbedding || (keeps_rows(node.op) && first.is_token_rows);
    if (node.op == Op::kLinearBlocks) result.packs_planes = only_all_reduce_reads(graph, *node.result);
    if (node.op == Op::kColumns && !is_output(graph, *node.result)) {
      result.is_view = true;
      result.base = first.is_view ? first.base : node.operands[0];
      result.first_column = node.integer("begin") + (first.is_view ? first.first_column : 0);
    }
  }
}

/// The index of the last node that reads each value; views read their base.
std::vector<int64_t> last_uses(const Graph& graph, const std::vector<Placement>& values) {
  std::vector<int64_t> last(values.size(), -1);
  const auto use = [&](ValueId value, int64_t at) {
    const Placement& placement = values[value.value];
    int64_t& when = last[placement.is_view ? placement.base.value : value.value];
    when = std::max(when, at);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId operand : graph.nodes[i].operands) use(operand, static_cast<int64_t>(i));
    if (graph.nodes[i].result) use(*graph.nodes[i].result, static_cast<int64_t>(i));
  }
  for (const graph::Output& output : graph.outputs) use(output.value, kForever);
  return last;
}

}  // namespace

std::optional<ValueId> slot_of_rows(const Graph& graph) {
  std::optional<ValueId> slot;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kKvAppend && node.op != Op::kAttention) continue;
    const ValueId found = node.operands.at(node.op == Op::kKvAppend ? 2 : 3);
    if (slot && *slot != found) return std::nullopt;
    slot = found;
  }
  return slot;
}

BufferPlan plan_buffers(const Graph& graph) {
  BufferPlan plan;
  plan.values.resize(graph.values.size());
  mark_rows_and_views(graph, plan.values);
  const std::vector<int64_t> last = last_uses(graph, plan.values);
  Space space;
  const auto place = [&](ValueId value) {
    Placement& placement = plan.values[value.value];
    if (placement.is_view) return;
    placement.is_workspace = true;
    placement.offset = space.take(graph.value(value).type.bytes());
  };
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const ValueKind kind = graph.values[i].kind;
    if (kind == ValueKind::kInput || kind == ValueKind::kConstant) place(ValueId(static_cast<int32_t>(i)));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].result) place(*graph.nodes[i].result);
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
