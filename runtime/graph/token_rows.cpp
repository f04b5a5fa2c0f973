#include "runtime/graph/token_rows.h"

#include <map>

namespace lockstep::graph {
namespace {

/// Whether the result has as many rows as its first operand.
bool keeps_rows(Op op) {
  switch (op) {
    case Op::kLinear:
    case Op::kLinearBlocks:
    case Op::kHeadLinear:
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kRowsOfOwners:
    case Op::kAdd:
    case Op::kMultiply:
    case Op::kJoinPartials:
    case Op::kJoinHeads:
    case Op::kScale:
    case Op::kScaleRows:
    case Op::kScaleByPosition:
    case Op::kSoftCap:
    case Op::kCutOff:
    case Op::kMatchMagnitude:
    case Op::kWeightedSum:
    case Op::kFakeQuantise:
    case Op::kTakeColumns:
    case Op::kRmsNorm:
    case Op::kLayerNorm:
    case Op::kRope:
    case Op::kAttention:
    case Op::kCausalConv:
    case Op::kGatedDeltaRule:
    case Op::kActivation:
    case Op::kGatedActivation:
    case Op::kMoeRoute:
    case Op::kMoeExperts:
    case Op::kColumns:
    case Op::kScore: return true;
    default: return false;
  }
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

std::vector<bool> token_rows(const Graph& graph) {
  std::vector<bool> has_rows(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (!node.result) continue;
    const bool is_of_tokens = node.op == Op::kEmbedding || node.op == Op::kLookup;
    has_rows[static_cast<size_t>(node.result->value)] =
        is_of_tokens || (keeps_rows(node.op) && has_rows[static_cast<size_t>(node.operands.at(0).value)]);
  }
  return has_rows;
}

std::optional<ValueId> slot_of_rows(const Graph& graph) {
  std::map<ValueId, ValueId> all_slots;  // from a rank's own slots to all slots: ranks use equally many rows
  std::optional<ValueId> slot;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kOwnSlots) all_slots.emplace(*node.result, node.operands[0]);
    const std::optional<size_t> operand = slot_operand(node.op);
    if (!operand) continue;
    ValueId found = node.operands.at(*operand);
    if (const auto all = all_slots.find(found); all != all_slots.end()) found = all->second;
    if (slot && *slot != found) return std::nullopt;
    slot = found;
  }
  return slot && precedes_rows(graph, *slot) ? slot : std::nullopt;
}

}  // namespace lockstep::graph
