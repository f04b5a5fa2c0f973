// The fusion plan: nodes that run in the stage of another node. Computed before lowering.
//
// A stage ends with a barrier. Values that a worker computed itself need no barrier before it reads them:
//
//   norm ──rows──► product ──columns──► add, scale, activation …     rows: few, each worker computes all of them
//                                                                    columns: those that the worker has computed
//   norm, rope, kv_append ──heads──► attention                       heads: those that the worker attends to
//   linear_blocks ──roots──► all_reduce                              roots: written where the communicator reads them
//
// A fused node runs together with the other node, earlier or later than its own position in the graph. The rules only
// require that its operands are complete by then, and do not otherwise depend on the order of the nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::cpu {

/// Up to this many rows, each worker computes all rows of a product's x itself instead of waiting at a barrier.
constexpr int64_t kRowsMadeTwice = 8;

/// The fusion of one node.
struct Fused {
  enum class As {
    kStage,           // separate stages, or no work
    kRowsOf,          // a norm in the stage of a product
    kColumnsOf,       // in the stage of a product
    kHalvesOf,        // the same for packed gate and up: a worker computes the same columns of both halves
    kQueryHeadsOf,    // in the stage of an attention
    kCacheHeadsOf,    // the same for cache heads
    kRootsInPlaceOf,  // an all_reduce of a product's roots: separate stages
  };
  As as = As::kStage;
  int32_t of = -1;  // the other node, an index of Graph::nodes

  friend bool operator==(const Fused&, const Fused&) = default;
};

struct FusionPlan {
  std::vector<Fused> nodes;  // in the order of Graph::nodes

  /// The node in whose stage `node` runs; itself if it has separate stages.
  size_t stage_of(size_t node) const;
  /// The other nodes that run in the stage of `node`, in order.
  std::vector<size_t> parts_of(size_t node) const;

  friend bool operator==(const FusionPlan&, const FusionPlan&) = default;
};

/// Pure: depends on the graph only.
FusionPlan plan_fusion(const graph::Graph& graph);

/// A line for each fused node: "%12 rms_norm → rows of %13 linear".
std::string to_text(const graph::Graph& graph, const FusionPlan& plan);

}  // namespace lockstep::cpu
