// Supported degrees and memory of a backend's devices, for planning without a device.
#pragma once

#include <span>
#include <string>

#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "runtime/device/option_row.h"

namespace lockstep::device {

/// The device selected by the options.
struct DeviceFacts {
  std::string name;   // "trn1"
  Bytes memory;       // available to one rank
  std::string words;  // "trn1: degrees 1, 2, 8, 16, 32 and 16.00 GiB of memory for a core, as AWS documents them"
};

/// Device memory of one rank's steps: the largest over all ranks, with the device's padding.
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

  virtual DeviceFacts facts(const OptionValues& values) const = 0;
  /// "--neuron-target: found 3 ranks on trn1, expected …"; empty if this number of ranks is supported.
  virtual std::string why_not_degree(int ranks, const OptionValues& values) const = 0;
  /// The memory of all steps of a run. Fails if a step cannot run on the device.
  virtual Result<DeviceMemory> memory_of(std::span<const StepGraph> steps, const OptionValues& values) const = 0;
};

}  // namespace lockstep::device
