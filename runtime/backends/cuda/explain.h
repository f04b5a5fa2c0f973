// A step's launches as text.
#pragma once

#include <string>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace lockstep::cuda {

/// A headline, then a line for each launch: "rms_norm_bf16  8 blocks of 256 threads, 128 B". Needs no GPU.
Result<std::string> explain(const graph::Graph& graph);

}  // namespace lockstep::cuda
