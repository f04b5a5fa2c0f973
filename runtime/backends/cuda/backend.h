// The backend for one GPU and rank.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/backends/cuda/step_plan.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/device/backend.h"
#include "runtime/device/device_exchange.h"
#include "runtime/device/hosts.h"

namespace lockstep::cuda {

struct Options {
  std::filesystem::path driver = "libcuda.so.1";
  int ordinal = 0;                               // of the GPU, among the visible ones
  int ranks_of_device = 1;                       // that use the GPU together
  Duration deadline = std::chrono::seconds(60);  // of a step
  const AbortFlag* abort = nullptr;              // ends waits early; may be null, outlives the backend
  device::Hosts hosts;                           // of the group's ranks; empty: all on one
  device::ConnectDevices connect;                // needed where there are several
  std::filesystem::path exchange_library;        // for `connect`
  int host_threads = 1;                          // that load weights
  StepOptions steps = {};
  std::filesystem::path blas = cu::BlasLibrary::kDefault;  // where the steps use it
  bool early_launches = true;                              // a kernel loads weights before the one ahead has ended
};

device::Capabilities capabilities(const StepOptions& steps = {});

/// Results are the same to the bit for every number of rows, ranks and chunks, on one kind of GPU, unless the steps use
/// cuBLASLt. Fails with
/// `kUnavailable` without a driver, a GPU or kernels for it. @blocking
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

}  // namespace lockstep::cuda
