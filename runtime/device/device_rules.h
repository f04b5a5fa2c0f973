// Supported degrees and memory of a backend's devices, for planning without a device.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "runtime/device/option_row.h"

namespace lockstep::device {

/// Messages between two devices: bytes a second in one direction, and the time of an empty one.
struct DeviceLink {
  double bytes_per_s = 0.0;
  double latency_s = 0.0;
};

/// A device's limits as its vendor publishes them.
struct PublishedLimits {
  double read_bytes_per_s = 0.0;
  double flops_per_s = 0.0;  // of the asked type
  int devices_per_host = 1;
  DeviceLink within_host, between_hosts;
};

/// The device selected by the options.
struct DeviceFacts {
  std::string name;   // "trn1"
  Bytes memory;       // available to one rank
  std::string words;  // "trn1: degrees 1, 2, 8, 16, 32 and 16.00 GiB of memory for a core, as AWS documents them"
  std::optional<PublishedLimits> limits;
};

/// Device memory of one rank's steps, with the device's padding; of a whole group the largest over all ranks.
struct DeviceMemory {
  Bytes weights;
  Bytes cache;      // keys and values
  Bytes slots;      // the other states
  Bytes workspace;  // everything else that is known

  Bytes total() const { return weights + cache + slots + workspace; }
  friend bool operator==(const DeviceMemory&, const DeviceMemory&) = default;
};

/// Pure. Option values are checked.
class DeviceRules {
 public:
  virtual ~DeviceRules() = default;

  /// `work` selects the published arithmetic.
  virtual DeviceFacts facts(const OptionValues& values, const ProbedWork& work) const = 0;
  /// "--neuron-target: found 3 ranks on trn1, expected …"; empty if this number of ranks is supported.
  virtual std::string why_not_degree(int ranks, const OptionValues& values) const = 0;
  /// The memory of all steps of a rank, or of the whole group (see `Capabilities::whole_group`). Fails if a step cannot
  /// run on the device.
  virtual Result<DeviceMemory> memory_of(std::span<const StepGraph> steps, const OptionValues& values) const = 0;
};

}  // namespace lockstep::device
