// A step's launches as text.
#pragma once

#include <span>
#include <string>

#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "runtime/graph/graph.h"

namespace lockstep::cuda {

/// What a step's launches compute together (fusion_plan.h): a headline, then a line for each fused node.
std::string explain_fusion(const graph::Graph& graph);

/// A headline, the sums of bytes with every slot full, then a line for each launch: its grid, the bytes that it reads,
/// its parameters (launch_facts.h), then the fusions. Needs no GPU.
Result<std::string> explain(const graph::Graph& graph);

/// One line: the memory of all steps of a rank.
Result<std::string> explain_memory(std::span<const device::StepGraph> steps);

}  // namespace lockstep::cuda
