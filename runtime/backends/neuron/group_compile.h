// What the ranks of a group do together before a module is loaded: a load waits for the other ranks for ever, so they
// make sure of each other first, over the host's communicator, where every wait has a deadline.
//
//   every rank   hash of the module ─┐
//                                    ├─ all equal ─► compile, or wait for the rank of this host that does ─► all done
//                                    ─► load
//   a difference ends all of them  ──┘                 a word to the others every second
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/device/artifact_cache.h"
#include "runtime/device/communicator.h"

namespace lockstep::neuron {

/// Fails with `kFailedPrecondition` on every rank, naming those whose `hash` of `module` differs from most ranks'.
/// `hash` has the same length everywhere. `group` is null in a group of one. @collective @blocking
Result<void> agree_on_module(device::Communicator* group, std::string_view module, std::string_view hash);

/// Gets an artifact, which may take hours, on a thread of its own, while the group hears that this rank is alive. Ends
/// when every rank has ended: with this rank's error, or naming a rank that failed. @collective @blocking
Result<device::Artifact> get_together(device::Communicator* group, std::string_view module,
                                      const std::function<Result<device::Artifact>()>& get);

}  // namespace lockstep::neuron
