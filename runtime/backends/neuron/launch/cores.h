// Which core each rank takes: one process uses one core, and cores belong to a process alone, so several jobs of a host
// name different ones.
//
//   --neuron-cores  (nothing)     0 … ranks of the host − 1
//                   4             the first four, for at most four ranks
//                   8-15          these: local rank i takes the i-th
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/device/rank_place.h"

namespace lockstep::neuron {

/// The cores that `text` means: a count, or a list such as "0,2", "8-15" or "3-3". Empty: none are named. Fails with
/// `kInvalidArgument` naming `source`.
Result<std::vector<int>> parse_cores(const std::string& text, const std::string& source);

/// What a rank's user said about cores.
struct WantedCores {
  std::string option;                   // --neuron-cores
  std::optional<std::string> variable;  // NEURON_RT_VISIBLE_CORES: a list, where a single number is a core
};

/// Element r: rank r's core. `wanted` by rank. Pure. Fails with `kInvalidArgument` on text that names no cores, and
/// with `kFailedPrecondition` when a host's ranks are more than its cores, or two take one.
Result<std::vector<int>> assign_cores(std::span<const device::RankPlace> places, std::span<const WantedCores> wanted);

}  // namespace lockstep::neuron
