// Assigns one core to each rank. A process uses one core exclusively, so several jobs of a host must name different
// cores.
//
//   --neuron-cores  (nothing)     0 … ranks of the host − 1
//                   4             the first four, for at most four ranks
//                   8-15          local rank i takes the i-th of these
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/device/rank_place.h"

namespace lockstep::neuron {

/// The cores given by `text`: a count, or a list such as "0,2", "8-15" or "3-3". Empty: none given. Fails with
/// `kInvalidArgument` naming `source`.
Result<std::vector<int>> parse_cores(const std::string& text, const std::string& source);

/// The cores requested by a rank's user.
struct WantedCores {
  std::string option;                   // --neuron-cores
  std::optional<std::string> variable;  // NEURON_RT_VISIBLE_CORES: a list, where a single number is a core
};

/// Element r: rank r's core. `wanted` is by rank. Pure. Fails with `kInvalidArgument` on malformed text, and with
/// `kFailedPrecondition` when a host has more ranks than cores, or two ranks get one core.
Result<std::vector<int>> assign_cores(std::span<const device::RankPlace> places, std::span<const WantedCores> wanted);

}  // namespace lockstep::neuron
