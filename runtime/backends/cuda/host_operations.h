// The operations of a step that the host computes: slots, agreement, sampling.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/device/communicator.h"
#include "runtime/graph/graph.h"
#include "runtime/sampling/sampling.h"

namespace lockstep::cuda {

/// Memory of the host for a graph's values. Borrows everything.
struct HostMemory {
  const graph::Graph& graph;
  /// The value's memory; null where the host does not know it.
  std::function<std::byte*(graph::ValueId)> at;
  /// The first bytes of the rows of the hidden states that an `agree` reads from the device; null: they are the host's.
  const std::byte* hidden_sample = nullptr;
  device::Communicator* communicator = nullptr;  // null in a group of one
};

/// Runs one node; what it needs is allocated before.
using HostOperation = std::function<Result<void>()>;

/// Fails with `kUnsupported` where an operand is not in the host's memory.
Result<HostOperation> host_operation(const graph::Node& node, const HostMemory& memory);

}  // namespace lockstep::cuda
