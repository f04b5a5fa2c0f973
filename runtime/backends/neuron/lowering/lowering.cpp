#include "runtime/backends/neuron/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/backends/neuron/lowering/step.h"

namespace lockstep::neuron {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;

using LowerNode = Result<void> (*)(const NodeView&);

LowerNode lowering_of(Op op) {
  switch (op) {
    case Op::kEmbedding: return lower_embedding;
    case Op::kLinear: return lower_linear;
    case Op::kLinearBlocks: return lower_linear_blocks;
    case Op::kHeadLinear:
    case Op::kJoinHeads: return nullptr;  // Capabilities::latent_attention
    case Op::kAllReduce: return lower_all_reduce;
    case Op::kAllGather: return lower_all_gather;
    case Op::kLookup: return lower_lookup;
    case Op::kAdd: return lower_add;
    case Op::kMultiply: return lower_multiply;
    case Op::kJoinPartials: return lower_join_partials;
    case Op::kScale: return lower_scale;
    case Op::kScaleRows: return lower_scale_rows;
    case Op::kScaleByPosition: return lower_scale_by_position;
    case Op::kSoftCap: return lower_soft_cap;
    case Op::kCutOff: return lower_cut_off;
    case Op::kMatchMagnitude: return lower_match_magnitude;
    case Op::kWeightedSum: return lower_weighted_sum;
    case Op::kFakeQuantise:
    case Op::kTakeColumns: return nullptr;  // Capabilities::coded_weights
    case Op::kRmsNorm: return lower_rms_norm;
    case Op::kLayerNorm: return lower_layer_norm;
    case Op::kRope: return lower_rope;
    case Op::kClampPositions: return lower_clamp_positions;
    case Op::kKvAppend: return lower_kv_append;
    case Op::kAttention: return lower_attention;
    case Op::kCausalConv:
    case Op::kGatedDeltaRule: return nullptr;  // Capabilities::recurrences
    case Op::kActivation: return lower_activation;
    case Op::kGatedActivation: return lower_gated_activation;
    case Op::kMoeRoute: return lower_moe_route;
    case Op::kMoeExperts: return lower_moe_experts;
    case Op::kColumns: return lower_columns;
    case Op::kSelectRows: return lower_select_rows;
    case Op::kFirstRows: return lower_first_rows;
    case Op::kRunningSlots: return lower_running_slots;
    case Op::kOwnSlots: return lower_own_slots;
    case Op::kRowsOfOwners: return lower_rows_of_owners;
    case Op::kMarkSeen: return lower_mark_seen;
    case Op::kAdvance: return lower_advance;
    case Op::kAgree: return lower_agree;
    case Op::kSample: return lower_sample;
    case Op::kAccept: return lower_accept;
    case Op::kScore: return lower_score;
  }
  return nullptr;
}

/// Attributes that may differ between ranks; the lowering passes them as data, or pads.
constexpr std::array<std::string_view, 8> kRankAttributes = {"begin",     "end",        "experts",  "first_expert",
                                                             "first_row", "first_slot", "head_map", "heads"};

/// The attributes that ranks must share. One that may differ may also be absent (such as "heads" when it is 1).
graph::Attributes shared_attributes(const Node& node) {
  graph::Attributes shared = node.attributes;
  for (const std::string_view name : kRankAttributes) shared.erase(std::string(name));
  return shared;
}

bool is_same_node(const Node& a, const Node& b) {
  return a.op == b.op && a.operands == b.operands && a.result == b.result &&
         shared_attributes(a) == shared_attributes(b);
}

bool is_same_value(const graph::Value& a, const graph::Value& b) {
  return a.kind == b.kind && a.name == b.name && a.type.dtype == b.type.dtype &&
         a.type.shape.rank() == b.type.shape.rank();
}

bool is_same_step(const Graph& a, const Graph& b) {
  return a.name == b.name && a.rows == b.rows && a.slots == b.slots && a.outputs == b.outputs &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), is_same_node) &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), is_same_value);
}

Result<void> require_one_step(std::span<const Graph> graphs) {
  const auto invalid = [](std::string found) {
    return Error{ErrorKind::kInvalidArgument, "[runtime/backends/neuron] cannot lower a step: " + std::move(found) +
                                                  "; pass the same step of every rank, in order"};
  };
  if (graphs.empty()) return invalid("found no graph, expected one for each rank");
  for (size_t i = 0; i < graphs.size(); ++i) {
    if (graphs[i].ranks != static_cast<int>(graphs.size()) || graphs[i].rank != static_cast<int>(i)) {
      return invalid(
          fmt::format("found rank {} of {} in place {} of {}", graphs[i].rank, graphs[i].ranks, i, graphs.size()));
    }
    if (!is_same_step(graphs[0], graphs[i])) {
      return invalid(fmt::format("the graph of rank {} does not match that of rank 0", i));
    }
  }
  return ok();
}

}  // namespace

Result<LoweredStep> lower(std::span<const Graph> graphs, const LoweringOptions& options) {
  LOCKSTEP_TRY_VOID(require_one_step(graphs));
  Step step(graphs, options);
  for (size_t i = 0; i < graphs.front().nodes.size(); ++i) {
    LOCKSTEP_TRY_VOID(lowering_of(graphs.front().nodes[i].op)(NodeView(step, i)));
  }
  return std::move(step).finish();
}

}  // namespace lockstep::neuron
