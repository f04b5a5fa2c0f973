// Checks of a graph's soundness.
//
// Names are unique, operands exist before their use, every node matches its operation, only states are updated, and the
// slices of a weight add up to its shape.
#pragma once

#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// The type of `op`'s result for operands of these types in a graph with `rank` and `ranks`; empty for an operation
/// without a result. Fails with `kInvalidArgument` naming the wrong operand or attribute.
Result<std::optional<TensorType>> infer_type(const Graph& graph, Op op, const std::vector<ValueId>& operands,
                                             const Attributes& attributes);

/// Fails with `kInvalidArgument` naming the node and the mistake. Runs between passes.
Result<void> verify(const Graph& graph);

/// The operands (by index) that `op` updates in place.
std::vector<size_t> updated_operands(Op op);

}  // namespace lockstep::graph
