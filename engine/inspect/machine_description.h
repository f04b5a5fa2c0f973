// The machine of a plan, from options, a measurement, a recorded probe or assumptions.
#pragma once

#include <string>
#include <vector>

#include "lockstep/inspect.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/clock.h"
#include "runtime/device/device_rules.h"
#include "runtime/probe/probe.h"
#include "shards/cost/machine.h"

namespace lockstep::inspect {

struct MachineDescription {
  cost::MachineLimits limits;
  std::vector<std::string> words;  // the source of each number, one sentence each
};

/// Limits for products of `precision`, or those that the vendor of the ranks' devices publishes where nothing else is
/// known. Reads the file of --probe; probes this machine for --measure. Fails with
/// `kNotFound` or `kInvalidArgument` for a probe file that is missing or has no limits, and as `probe::Prober`.
/// @blocking
Result<MachineDescription> describe_machine(const MachineOptions& options, probe::Precision precision,
                                            const Clock& clock,
                                            const std::optional<device::PublishedLimits>& published = std::nullopt);

/// The machine in a file of `bench --json`.
struct RecordedProbe {
  cost::Rates rates;  // of all probed cores together
  int ranks = 1;
  int cores = 1;
  bool of_devices = false;                         // each rank has a device with its share of the rates
  std::vector<cost::LinkMeasurement> collectives;  // between `ranks` ranks; may be empty

  friend bool operator==(const RecordedProbe&, const RecordedProbe&) = default;
};

/// Fails with `kInvalidArgument`, naming `origin` and the field.
Result<RecordedProbe> parse_probe(const std::string& json, const std::string& origin);

/// The assumed link between ranks of a host.
cost::Link assumed_link();

/// The data type of a model's products: that of its weights, or 8-bit integers.
probe::Precision precision_of(const checkpoint::ModelSpec& spec, DType dtype);

}  // namespace lockstep::inspect
