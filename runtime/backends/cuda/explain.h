// A step's launches as text.
#pragma once

#include <string>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace lockstep::cuda {

/// What a step's launches compute together (fusion_plan.h): a headline, then a line for each fused node.
std::string explain_fusion(const graph::Graph& graph);

/// A headline, a line for each launch ("rms_norm_bf16  8 blocks of 256 threads, 128 B shared"), then the fusions. Needs
/// no GPU.
Result<std::string> explain(const graph::Graph& graph);

}  // namespace lockstep::cuda
