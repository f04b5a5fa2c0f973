// Sharing of memory between results: a buffer is reused after the last read of its value.
//
//   node      0   1   2   3   4
//   %a        w   r                    buffer 0
//   %b            w   r   r            buffer 1
//   %c                w       r        buffer 0 again
#pragma once

#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::reference {

struct BufferPlan {
  std::vector<int> buffer;     // one per value: its buffer, or −1 for weights and states
  std::vector<int64_t> bytes;  // one per buffer
};

/// Inputs, constants and outputs have separate buffers. Pure.
BufferPlan plan_buffers(const graph::Graph& graph);

}  // namespace lockstep::reference
