// What AWS says of the instances that a target is compiled for, as a table, and the rules that follow: they are looked
// at before weights are read.
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
  std::vector<int> degrees;   // tensor-parallel degrees that AWS documents
  int most_cores = 0;         // of the largest instance: logical cores
  std::string largest;        // its name
  Bytes core_memory;          // of one logical core
  bool between_hosts = true;  // collectives reach other instances
};

const InstanceFamily& family_of(Target target);

/// Why `ranks` ranks are no degree of the family, on `hosts` hosts (default: as few as have the cores); empty: they are
/// one, or whole instances. Pure.
std::string why_not_degree(const InstanceFamily& family, int ranks, std::optional<int> hosts = std::nullopt);

/// Whether ranks at `places` can work together there. Returns warnings: a degree that AWS does not document is only
/// one under `Degrees::kAny`. Pure. Fails with `kUnsupported` for a degree or for several hosts, and with
/// `kFailedPrecondition` for more ranks on a host than any instance has cores.
Result<std::vector<std::string>> check_instances(const InstanceFamily& family,
                                                 std::span<const device::RankPlace> places, device::Degrees degrees);

/// Fails with `kResourceExhausted` when `estimate` cannot fit a core. Pure.
Result<void> check_core_memory(const InstanceFamily& family, const MemoryEstimate& estimate);

}  // namespace lockstep::neuron
