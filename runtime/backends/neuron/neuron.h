// The backend for AWS Neuron (Trainium, Inferentia). A step's graphs become one HLO module; neuronx-cc compiles it
// ahead of time to a NEFF with the collectives inside, and the Neuron runtime executes it. README.md lists what has
// been tested.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/backends/neuron/compiler/compiler.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/log.h"
#include "runtime/core/result.h"
#include "runtime/device/artifact_cache.h"
#include "runtime/device/backend.h"
#include "runtime/device/backend_driver.h"
#include "runtime/graph/graph.h"

namespace lockstep::neuron {

/// The driver of this backend.
const device::BackendDriver& driver();

/// The module of one step as text: its parameters and outputs, then HLO. `graphs` are the step of every rank, in order,
/// before passes. Fails as `lower` does. Pure.
Result<std::string> explain(std::span<const graph::Graph> graphs);

/// Everything is borrowed and outlives the backend.
struct Options {
  CompilerOptions compiler;
  std::filesystem::path runtime = "libnrt.so.1";      // a file, or a name on the library path or in AWS's folder
  Duration load_deadline = std::chrono::minutes(10);  // of the start and of loading one module, for all ranks together
  Duration step_deadline = std::chrono::minutes(1);   // of one step
  const AbortFlag* abort = nullptr;                   // may be null
  /// Called on a separate thread when a load or a step exceeds its deadline or the flag was raised, because neither can
  /// be stopped. Must end the process. If empty, deadlines are not enforced.
  std::function<void(const Error&)> on_stuck;
  const Log* log = nullptr;  // receives the version of the runtime; may be null

  /// Fails with `kInvalidArgument`.
  Result<void> validate() const;
};

/// Starts the Neuron runtime on the first core visible to the process. The environment defines the visible cores
/// (NEURON_RT_VISIBLE_CORES) and the meeting point of the ranks (NEURON_RT_ROOT_COMM_ID). One backend at a time in a
/// process. `cache` outlives it. Fails with `kUnavailable` when the runtime is not installed. @blocking
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options, device::ArtifactCache& cache);
/// The same, and takes ownership of the cache.
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options,
                                                      std::unique_ptr<device::ArtifactCache> cache);

/// The backend's capabilities, known without a device.
device::Capabilities capabilities();

/// Memory of the steps on one rank's core, without that of the compiler and the runtime.
struct MemoryEstimate {
  Bytes weights;    // padded to the largest rank's
  Bytes caches;     // keys and values, with scratch rows
  Bytes slots;      // the other states
  Bytes exchanged;  // inputs, outputs and rank-specific numbers of every step

  Bytes states() const { return caches + slots; }
  Bytes total() const { return weights + states() + exchanged; }
};

/// "1.20 GiB of weights, 300.00 MiB of states, 12 B of inputs and outputs".
std::string to_string(const MemoryEstimate& estimate);

/// The estimate for `steps`, each with the graphs of all ranks. Fails as `lower` does. Pure.
Result<MemoryEstimate> estimate_memory(std::span<const device::StepGraph> steps);

}  // namespace lockstep::neuron
