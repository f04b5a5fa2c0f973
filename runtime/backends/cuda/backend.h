// The backend for one GPU and rank.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/device/backend.h"

namespace lockstep::cuda {

struct Options {
  std::filesystem::path driver = "libcuda.so.1";
  int ordinal = 0;                               // of the GPU, among the visible ones
  int ranks_of_device = 1;                       // that use the GPU together
  Duration deadline = std::chrono::seconds(60);  // of a step
  const AbortFlag* abort = nullptr;              // ends waits early; may be null, outlives the backend
  int node = 0;                                  // number of the rank's host, the same for ranks on one host
  bool early_launches = true;                    // a kernel loads weights before the one ahead has ended
};

device::Capabilities capabilities();

/// Results are the same to the bit for every number of rows, ranks and chunks, on one kind of GPU. Fails with
/// `kUnavailable` without a driver, a GPU or kernels for it. @blocking
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

}  // namespace lockstep::cuda
