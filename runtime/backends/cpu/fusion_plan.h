// Which nodes of a graph run in the stage of another node, decided before a node is lowered.
//
// A stage ends with a barrier. What a worker does with values that it made itself needs none:
//
//   norm ──rows──► product ──columns──► add, scale, activation …     rows: few, each worker makes all of them
//                                                                    columns: those that the worker has computed
//   norm, rope, kv_append ──heads──► attention                       heads: those that the worker attends to
//   linear_blocks ──roots──► all_reduce                              roots: written where the communicator reads them
//
// A fused node runs when the other node does, earlier or later than its own place in the graph. The rules ask whether
// its operands are complete by then, and nothing else of the order of the nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::cpu {

/// Up to so many rows, each worker makes all rows of a product's x for itself instead of meeting the others.
constexpr int64_t kRowsMadeTwice = 8;

/// What a node becomes.
struct Fused {
  enum class As {
    kStage,           // stages of its own, or nothing to do
    kRowsOf,          // a norm, of a product: part of its stage
    kColumnsOf,       // of a product: part of its stage
    kHalvesOf,        // the same for packed gate and up: a worker computes the same columns of both halves
    kQueryHeadsOf,    // of an attention: part of its stage
    kCacheHeadsOf,    // the same
    kRootsInPlaceOf,  // an all_reduce, of a product: stages of its own
  };
  As as = As::kStage;
  int32_t of = -1;  // the other node, an index of Graph::nodes

  friend bool operator==(const Fused&, const Fused&) = default;
};

struct FusionPlan {
  std::vector<Fused> nodes;  // in the order of Graph::nodes

  /// The node in whose stage `node` runs; itself, if it has stages of its own.
  size_t stage_of(size_t node) const;
  /// The other nodes that run in the stage of `node`, in order.
  std::vector<size_t> parts_of(size_t node) const;

  friend bool operator==(const FusionPlan&, const FusionPlan&) = default;
};

/// Pure: the graph alone decides.
FusionPlan plan_fusion(const graph::Graph& graph);

/// A line for each node that is fused: "%12 rms_norm → rows of %13 linear".
std::string to_text(const graph::Graph& graph, const FusionPlan& plan);

}  // namespace lockstep::cpu
