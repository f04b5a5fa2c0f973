// What is known of a backend's devices on a machine that has none: degrees, and memory.
#pragma once

#include <span>
#include <string>

#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/device/backend.h"
#include "runtime/device/option_row.h"

namespace lockstep::device {

/// The device that options name.
struct DeviceFacts {
  std::string name;   // "trn1"
  Bytes memory;       // that one rank has there
  std::string words;  // "trn1: degrees 1, 2, 8, 16, 32 and 16.00 GiB of memory for a core, as AWS documents them"
};

/// Bytes of a device that the steps of one rank take, whichever it is: where ranks differ, as the device pads them.
struct DeviceMemory {
  Bytes weights;
  Bytes cache;      // keys and values
  Bytes slots;      // the other states
  Bytes workspace;  // all else that is known

  Bytes total() const { return weights + cache + slots + workspace; }
  friend bool operator==(const DeviceMemory&, const DeviceMemory&) = default;
};

/// Pure. Option values are checked.
class DeviceRules {
 public:
  virtual ~DeviceRules() = default;

  virtual DeviceFacts facts(const OptionValues& values) const = 0;
  /// "--neuron-target: found 3 ranks on trn1, expected …"; empty: so many ranks can work together.
  virtual std::string why_not_degree(int ranks, const OptionValues& values) const = 0;
  /// Of all steps of a run. Fails where a step cannot run on the device.
  virtual Result<DeviceMemory> memory_of(std::span<const StepGraph> steps, const OptionValues& values) const = 0;
};

}  // namespace lockstep::device
