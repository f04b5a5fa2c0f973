// Equivalent orders of a graph's nodes.
#pragma once

#include <cstdint>

#include "runtime/graph/graph.h"

namespace lockstep::model {

/// The same step with its nodes in another order, chosen by `seed`: every value is made before it is read, and the
/// updates of a state keep their places among the nodes that read it. Values keep their names; the graph is sound. The
/// graphs of all ranks of a step get the same order from the same seed, as far as they have the same nodes.
graph::Graph reordered(const graph::Graph& graph, uint64_t seed);

}  // namespace lockstep::model
