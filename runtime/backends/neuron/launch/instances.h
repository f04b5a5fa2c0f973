// A table of AWS's instances, with rules for ranks that are checked before weights are read.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/neuron/neuron.h"
#include "runtime/device/backend_driver.h"

namespace lockstep::neuron {

/// One kind of device.
struct InstanceFamily {
  Target target = Target::kTrn1;
  std::vector<int> degrees;   // tensor-parallel degrees documented by AWS
  int most_cores = 0;         // of the largest instance: logical cores
  std::string largest;        // its name
  Bytes core_memory;          // of one logical core
  bool between_hosts = true;  // collectives work between instances
};

const InstanceFamily& family_of(Target target);

/// Why `ranks` ranks are not a valid degree of the family, on `hosts` hosts (default: the fewest with enough cores).
/// Empty if they are a documented degree or whole instances. Pure.
std::string why_not_degree(const InstanceFamily& family, int ranks, std::optional<int> hosts = std::nullopt);

/// Whether ranks at `places` can work together there. Returns warnings: under `Degrees::kAny` an undocumented degree is
/// only a warning. Pure. Fails with `kUnsupported` for a degree or for several hosts, and with `kFailedPrecondition`
/// for more ranks on a host than the cores of any instance.
Result<std::vector<std::string>> check_instances(const InstanceFamily& family,
                                                 std::span<const device::RankPlace> places, device::Degrees degrees);

/// Fails with `kResourceExhausted` when `estimate` cannot fit a core. Pure.
Result<void> check_core_memory(const InstanceFamily& family, const MemoryEstimate& estimate);

}  // namespace lockstep::neuron
