// The packing of a weight for a node. The store packs with it, and the compiler finds the weight by it.
#pragma once

#include <optional>

#include "runtime/backends/cpu/packing.h"
#include "runtime/graph/graph.h"

namespace lockstep::cpu {

/// Empty if the node reads that operand row by row.
std::optional<Packing> packing_of(const Kernels& kernels, const graph::Graph& graph, const graph::Node& node,
                                  size_t operand);

}  // namespace lockstep::cpu
