// Agreement of the ranks before a module is loaded. A load waits for the other ranks without limit, so the ranks first
// synchronise over the host's communicator, where every wait has a deadline.
//
//   every rank   hash of the module ─┐
//                                    ├─ all equal ─► one rank per host compiles ─► all done ─► load
//   a difference ends all of them  ──┘               a sign of life every second
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/device/artifact_cache.h"
#include "runtime/device/communicator.h"

namespace lockstep::neuron {

/// Fails with `kFailedPrecondition` on every rank, naming the ranks whose `hash` of `module` differs from the most
/// frequent one. `hash` has the same length on every rank. `group` is null in a group of one. @collective @blocking
Result<void> agree_on_module(device::Communicator* group, std::string_view module, std::string_view hash);

/// Gets an artifact, which may take hours, on a separate thread, while this rank sends signs of life to the group.
/// Returns when every rank has finished: with this rank's error, or naming a failed rank. @collective @blocking
Result<device::Artifact> get_together(device::Communicator* group, std::string_view module,
                                      const std::function<Result<device::Artifact>()>& get);

}  // namespace lockstep::neuron
