// The fusion plan: nodes that another node's launch computes. Decided before lowering, which looks it up.
//
//   select_rows, norm ──rows──► product ──columns──► all_reduce of one rank, add, gate, activation, …     at most 8
//   rows norm, rope, kv_append ──heads──► attention                                                    any number of
//   rows add ──residual──► all_reduce all_reduce of one rank ──columns──► embedding
//
// A fused node's results are the same bits as in its own launch: it rounds where the graph rounds. Its launch is at the
// place of the other node, earlier or later than its own; the rules require that what it reads is there by then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::cuda {

/// What becomes of one node.
struct Fused {
  enum class As {
    kLaunch,      // separate launches, or no work
    kRowsOf,      // selects or norms the rows of a product
    kColumnsOf,   // goes on with a product's or an embedding's results
    kGateOf,      // the gates of a product whose results are gated by them
    kHeadsOf,     // prepares heads for an attention
    kResidualOf,  // is added where roots are summed
  };
  As as = As::kLaunch;
  int32_t of = -1;  // the other node, an index of Graph::nodes

  friend bool operator==(const Fused&, const Fused&) = default;
};

struct FusionPlan {
  std::vector<Fused> nodes;  // in the order of Graph::nodes

  /// The node whose launch computes `node`; itself if it has its own.
  size_t launch_of(size_t node) const;
  /// The nodes that are fused with `node` in this way, in order.
  std::vector<size_t> parts_of(size_t node, Fused::As as) const;

  friend bool operator==(const FusionPlan&, const FusionPlan&) = default;
};

/// Pure: depends on the graph only.
FusionPlan plan_fusion(const graph::Graph& graph);

/// A line for each fused node: "%12 rms_norm → rows of %13 linear".
std::string to_text(const graph::Graph& graph, const FusionPlan& plan);

}  // namespace lockstep::cuda
