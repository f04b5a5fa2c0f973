// The machine that a plan is made for: given, measured, read from a recorded probe, or assumed; and in words which.
#pragma once

#include <string>
#include <vector>

#include "launcher/measure/plan/machine_options.h"
#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/clock.h"
#include "runtime/probe/probe.h"
#include "shards/cost/machine.h"

namespace lockstep::launcher {

struct MachineDescription {
  cost::MachineLimits limits;
  std::vector<std::string> words;  // where each number comes from, a sentence each
};

/// Limits for products of `precision`. Reads the file of --probe; probes this machine where --measure says so. Fails
/// with `kNotFound` or `kInvalidArgument` for a probe that is not there or says nothing, and as `probe::Prober`.
/// @blocking
Result<MachineDescription> describe_machine(const MachineOptions& options, probe::Precision precision,
                                            const Clock& clock);

/// What a file of `bench --json` says of its machine.
struct RecordedProbe {
  cost::Rates rates;  // of all cores that were probed, together
  int ranks = 1;
  int cores = 1;
  std::vector<cost::LinkMeasurement> collectives;  // between `ranks` ranks; may be empty

  friend bool operator==(const RecordedProbe&, const RecordedProbe&) = default;
};

/// Fails with `kInvalidArgument` that names `origin` and the field.
Result<RecordedProbe> parse_probe(const std::string& json, const std::string& origin);

/// Messages within a host as they are assumed where nothing is known.
cost::Link assumed_link();

/// What a model's products multiply: the type of its weights, or their 8-bit integers.
probe::Precision precision_of(const checkpoint::ModelSpec& spec, DType dtype);

}  // namespace lockstep::launcher
