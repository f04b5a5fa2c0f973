// Which nodes of a step run where. The host keeps what describes the slots, so it computes with it, before and after
// the device:
//
//   host prologue    running slots, rows' slots and positions
//   device body      embedding … logits: one captured graph
//   host epilogue    agreement, sampling, lengths
#pragma once

#include <vector>

#include "runtime/core/result.h"
#include "runtime/graph/graph.h"

namespace lockstep::cuda {

enum class Place { kPrologue, kBody, kEpilogue };

/// By node. Fails with `kUnsupported` when a kernel would need a result of the epilogue.
Result<std::vector<Place>> split_nodes(const graph::Graph& graph);

}  // namespace lockstep::cuda
