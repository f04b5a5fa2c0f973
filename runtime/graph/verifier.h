// What makes a graph sound: names are unique, operands exist before they are used, every node has the operands,
// attributes and result type of its operation, only states are updated, weights' slices add up to their shape.
#pragma once

#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// The type of `op`'s result for operands of these types in a graph with header facts `rank`, `ranks`; empty for an
/// operation without a result. Fails with `kInvalidArgument` naming the operand or attribute that does not fit.
Result<std::optional<TensorType>> infer_type(const Graph& graph, Op op, const std::vector<ValueId>& operands,
                                             const Attributes& attributes);

/// Fails with `kInvalidArgument` that names the node and what is wrong with it. Runs between passes.
Result<void> verify(const Graph& graph);

/// The operands (by index) that `op` updates in place.
std::vector<size_t> updated_operands(Op op);

}  // namespace lockstep::graph
