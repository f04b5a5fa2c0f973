// Which packing a node reads a weight in: the store packs by it, the compiler finds the weight by it.
#pragma once

#include <optional>

#include "runtime/backends/cpu/packing.h"
#include "runtime/graph/graph.h"

namespace lockstep::cpu {

/// Empty where the node reads that operand row by row.
std::optional<Packing> packing_of(const Kernels& kernels, const graph::Graph& graph, const graph::Node& node,
                                  size_t operand);

}  // namespace lockstep::cpu
