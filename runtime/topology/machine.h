// A machine as a value: packages, NUMA nodes with their cores, and PCI devices with the cores near them.
//
//   package 0                        package 1
//   NUMA node 0   cores 0 1 2 3      NUMA node 1   cores 4 5 6 7        a core is named by its lowest hardware thread:
//     0000:17:00.0  0000:65:00.0       0000:98:00.0  0000:ca:00.0       core 1 may hold the hardware threads 1 and 9
//
// Cores are in the machine's order, in which neighbours share caches and memory; the system's numbers may alternate
// between packages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/ids.h"

namespace lockstep::topology {

struct Core {
  std::vector<int> threads;  // the system's numbers of its hardware threads, ascending; never empty

  int number() const { return threads.front(); }

  friend bool operator==(const Core&, const Core&) = default;
};

struct NumaNode {
  int number = 0;  // the system's
  int package = 0;
  Bytes memory;
  std::vector<Core> cores;  // none: memory without cores, or cores that this process may never use

  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

struct PciDevice {
  std::string bus;         // "0000:17:00.0"
  std::vector<int> cores;  // near it, in the machine's order

  friend bool operator==(const PciDevice&, const PciDevice&) = default;
};

/// A core and one of its hardware threads.
struct CoreThread {
  int core = 0;
  int thread = 0;

  friend bool operator==(const CoreThread&, const CoreThread&) = default;
};

struct Machine {
  std::string processor;           // "AMD EPYC 9654 96-Core Processor"; empty: unknown
  std::vector<NumaNode> nodes;     // empty: an unknown machine
  std::vector<PciDevice> devices;  // empty if they were not asked for

  int packages() const;
  int cores() const;
  Bytes memory() const;

  /// The cores of `threads`, each with the first of its hardware threads that is among them, in the machine's order.
  /// Hardware threads of no known core follow as cores of their own.
  std::vector<CoreThread> cores_of(std::span<const int> threads) const;
  /// `threads` in `parts` parts: whole cores, neighbours together, as even as it goes. Where there are fewer cores than
  /// parts, several parts have the same core.
  std::vector<std::vector<int>> divide(std::span<const int> threads, size_t parts) const;
  /// The device at `bus`, in any case of letters; null if there is none.
  const PciDevice* find_device(std::string_view bus) const;

  friend bool operator==(const Machine&, const Machine&) = default;
};

/// "NUMA node 1", "NUMA nodes 0, 1": where the cores are. "this machine" for cores of unknown places.
std::string where(const Machine& machine, std::span<const int> cores);

/// "2 packages, 2 NUMA nodes, 64 cores of 2 hardware threads".
std::string to_string(const Machine& machine);

}  // namespace lockstep::topology
