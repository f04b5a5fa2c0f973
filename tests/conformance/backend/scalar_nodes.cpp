// The table of operations, and the operations that read all ranks.
#include <algorithm>

#include "tests/conformance/backend/scalar_operations.h"

namespace lockstep::conformance::scalar {
namespace {

void all_reduce(std::vector<Rank>& ranks, size_t index) {
  Numbers sum;
  for (Rank& rank : ranks) {
    const graph::Node& node = rank.graph->nodes[index];
    const Array& partial = rank.operand(node, 0);
    sum.resize(static_cast<size_t>(rank.result(node).type.shape.elements()));
    for (size_t i = 0; i < partial.v.size(); ++i) sum[i % sum.size()] += partial.v[i];
  }
  for (Rank& rank : ranks) rank.result(rank.graph->nodes[index]).v = sum;
}

void all_gather(std::vector<Rank>& ranks, size_t index) {
  for (Rank& receiver : ranks) {
    Array& y = receiver.result(receiver.graph->nodes[index]);
    for (int64_t r = 0; r < y.rows(); ++r) {
      int64_t column = 0;
      for (Rank& sender : ranks) {
        const Array& x = sender.operand(sender.graph->nodes[index], 0);
        for (int64_t i = 0; i < x.columns(); ++i) y.at(r, column++) = x.at(r, i);
      }
    }
  }
}

void rows_of_owners(std::vector<Rank>& ranks, size_t index) {
  int64_t first = 0;  // column of the receiver
  for (Rank& receiver : ranks) {
    const graph::Node& node = receiver.graph->nodes[index];
    Array& y = receiver.result(node);
    const Array& slot = receiver.operand(node, 1);
    for (int64_t r = 0; r < y.rows(); ++r) {
      const double of_row = slot.v[static_cast<size_t>(r)];
      const auto owner = static_cast<size_t>(std::max(of_row, 0.0)) / static_cast<size_t>(node.integer("slots"));
      const Array& x = ranks[owner].operand(ranks[owner].graph->nodes[index], 0);
      for (int64_t i = 0; i < y.columns(); ++i) y.at(r, i) = of_row < 0 ? 0.0 : x.at(r, first + i);
    }
    first += y.columns();
  }
}

void agree(std::vector<Rank>& ranks, size_t index) {
  const Numbers requests = ranks[0].operand(ranks[0].graph->nodes[index], 6).v;  // rank 0's value
  for (Rank& rank : ranks) {
    Array& finished = rank.operand(rank.graph->nodes[index], 7);
    for (size_t s = 0; s < requests.size(); ++s) finished.v[s] = requests[s] != 0 ? 1 : finished.v[s];
  }
}

/// Runs an operation that reads only its own rank.
void run_local(Rank& rank, const graph::Node& node) {
  switch (node.op) {
    case graph::Op::kEmbedding: return embedding(rank, node);
    case graph::Op::kLinear: return linear(rank, node);
    case graph::Op::kLinearBlocks: return linear_blocks(rank, node);
    case graph::Op::kHeadLinear: return head_linear(rank, node);
    case graph::Op::kLookup: return lookup(rank, node);
    case graph::Op::kAdd: return add(rank, node);
    case graph::Op::kMultiply: return multiply(rank, node);
    case graph::Op::kJoinPartials: return join_partials(rank, node);
    case graph::Op::kJoinHeads: return join_heads(rank, node);
    case graph::Op::kScale: return scale(rank, node);
    case graph::Op::kScaleRows: return scale_rows(rank, node);
    case graph::Op::kScaleByPosition: return scale_by_position(rank, node);
    case graph::Op::kSoftCap: return soft_cap(rank, node);
    case graph::Op::kCutOff: return cut_off(rank, node);
    case graph::Op::kFakeQuantise: return fake_quantise(rank, node);
    case graph::Op::kTakeColumns: return take_columns(rank, node);
    case graph::Op::kMatchMagnitude: return match_magnitude(rank, node);
    case graph::Op::kWeightedSum: return weighted_sum(rank, node);
    case graph::Op::kRmsNorm: return rms_norm(rank, node);
    case graph::Op::kLayerNorm: return layer_norm(rank, node);
    case graph::Op::kRope: return rope(rank, node);
    case graph::Op::kClampPositions: return clamp_positions(rank, node);
    case graph::Op::kKvAppend: return kv_append(rank, node);
    case graph::Op::kAttention: return attention(rank, node);
    case graph::Op::kActivation: return activation(rank, node);
    case graph::Op::kGatedActivation: return gated_activation(rank, node);
    case graph::Op::kMoeRoute: return moe_route(rank, node);
    case graph::Op::kMoeExperts: return moe_experts(rank, node);
    case graph::Op::kColumns: return columns(rank, node);
    case graph::Op::kSelectRows: return select_rows(rank, node);
    case graph::Op::kFirstRows: return first_rows(rank, node);
    case graph::Op::kRunningSlots: return running_slots(rank, node);
    case graph::Op::kOwnSlots: return own_slots(rank, node);
    case graph::Op::kMarkSeen: return mark_seen(rank, node);
    case graph::Op::kAdvance: return advance(rank, node);
    case graph::Op::kSample: return sample(rank, node);
    case graph::Op::kAccept: return accept(rank, node);
    case graph::Op::kScore: return score(rank, node);
    case graph::Op::kCausalConv:  // compared with whole histories (recurrence_test.cpp)
    case graph::Op::kGatedDeltaRule:
    case graph::Op::kAllReduce:
    case graph::Op::kAllGather:
    case graph::Op::kRowsOfOwners:
    case graph::Op::kAgree: break;
  }
  LOCKSTEP_CHECK(false, to_string(node.op));
}

}  // namespace

void run_node(std::vector<Rank>& ranks, size_t index) {
  const graph::Op op = ranks[0].graph->nodes[index].op;
  if (op == graph::Op::kAllReduce) return all_reduce(ranks, index);
  if (op == graph::Op::kAllGather) return all_gather(ranks, index);
  if (op == graph::Op::kRowsOfOwners) return rows_of_owners(ranks, index);
  if (op == graph::Op::kAgree) return agree(ranks, index);
  for (Rank& rank : ranks) run_local(rank, rank.graph->nodes[index]);
}

}  // namespace lockstep::conformance::scalar
