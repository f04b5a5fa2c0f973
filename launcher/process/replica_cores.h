// The cores of this process, shared out between groups of ranks that run side by side.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// The groups of ranks that a command wants to start on this machine.
struct WantedReplicas {
  std::string_view command;  // "serve"
  std::string backend;
  bool takes_devices = false;  // each of the backend's ranks takes a device of its own
  int replicas = 1;
  int ranks = 1;  // of each
};

/// The hardware threads of each: whole cores, neighbours together (topology::Machine::divide). Fails with
/// `kUnsupported` for ranks that take devices, which are a launcher's to number, and with `kUnavailable` where the
/// machine cannot be read.
Result<std::vector<std::vector<int>>> cores_of_replicas(const WantedReplicas& wanted);

}  // namespace lockstep::launcher
