// AWS Neuron (Trainium, Inferentia): a step's graphs become one HLO module, which neuronx-cc compiles ahead of time to
// a NEFF with the collectives inside; the Neuron runtime replays it. See README.md for what was tried and what was not.
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

/// How the program starts it.
const device::BackendDriver& driver();

/// The module of one step (`graphs`: that step of every rank, in order, before passes) as text: first what its
/// parameters and outputs are, then HLO. Fails as `lower` does. Pure.
Result<std::string> explain(std::span<const graph::Graph> graphs);

/// Everything is borrowed and outlives the backend.
struct Options {
  CompilerOptions compiler;
  std::filesystem::path runtime = "libnrt.so.1";      // a file, or a name that the system and AWS's folder know
  Duration load_deadline = std::chrono::minutes(10);  // of the start and of one module, all ranks together
  Duration step_deadline = std::chrono::minutes(1);   // of one step
  const AbortFlag* abort = nullptr;                   // may be null
  /// Called on a thread of its own when a load or a step must not go on and cannot be stopped: its time is over, or the
  /// flag was raised. It ends the process. Empty: deadlines are not kept.
  std::function<void(const Error&)> on_stuck;
  const Log* log = nullptr;  // says which runtime was started; may be null

  /// Fails with `kInvalidArgument`.
  Result<void> validate() const;
};

/// Starts the Neuron runtime on the first core that the process sees; what it sees, and where the ranks meet, the
/// environment says (NEURON_RT_VISIBLE_CORES, NEURON_RT_ROOT_COMM_ID). One backend at a time in a process. `cache`
/// outlives it. Fails with `kUnavailable` where the runtime is not installed. @blocking
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options, device::ArtifactCache& cache);
/// The same, with a cache that it keeps.
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options,
                                                      std::unique_ptr<device::ArtifactCache> cache);

/// What the backend offers, without a device.
device::Capabilities capabilities();

/// Memory of one rank's core that steps take, without what the compiler and the runtime take for themselves.
struct MemoryEstimate {
  Bytes weights;    // padded to the largest rank's
  Bytes caches;     // keys and values, with scratch rows
  Bytes slots;      // the other states
  Bytes exchanged;  // inputs, outputs and ranks' own numbers of every step

  Bytes states() const { return caches + slots; }
  Bytes total() const { return weights + states() + exchanged; }
};

/// "1.20 GiB of weights, 300.00 MiB of states, 12 B of inputs and outputs".
std::string to_string(const MemoryEstimate& estimate);

/// Of `steps`, each with the graphs of all ranks. Fails as `lower` does. Pure.
Result<MemoryEstimate> estimate_memory(std::span<const device::StepGraph> steps);

}  // namespace lockstep::neuron
