// The CUDA driver, loaded when the backend is chosen. Building and starting the program needs no NVIDIA software.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/core/ids.h"
#include "runtime/core/result.h"
#include "runtime/cuda/abi.h"

namespace lockstep::cu {

inline constexpr const char* kDriverName = "libcuda.so.1";
/// The oldest driver that runs the images of this build (CUDA 13.0).
inline constexpr int kOldestDriver = 13000;

/// A GPU as its driver describes it.
struct DeviceFacts {
  int ordinal = 0;   // among the visible GPUs
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::string uuid;  // "GPU-8b1f…": the same in every process
  std::string bus;   // "0000:1b:00.0"
  Bytes memory;
  int major = 0;  // compute capability
  int minor = 0;
  int multiprocessors = 0;
  int64_t shared_bytes = 0;  // of a block, at most
  int64_t l2_bytes = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  bool has_cooperative_launch = false;
  bool has_virtual_memory = false;

  /// 90 for 9.0.
  int capability() const { return 10 * major + minor; }
};

/// A loaded driver. It stays loaded until the process ends, because its threads may still run. Thread-safe.
class Driver {
 public:
  /// Loads `path` (a file, or a name on the system's library path) and starts it. Fails with `kUnavailable` when there
  /// is no such library, when it lacks functions (naming all of them), when it is too old, and without a GPU.
  static Result<std::unique_ptr<Driver>> open(const std::filesystem::path& path = kDriverName);

  const Functions& functions() const { return functions_; }
  /// 13000 for CUDA 13.0.
  int version() const { return version_; }
  /// "13.0".
  std::string version_text() const;
  /// The number of visible GPUs, at least 1.
  int devices() const { return devices_; }
  /// The facts of one GPU.
  Result<DeviceFacts> facts(int ordinal) const;
  /// Whether kernels of GPU `ordinal` can use the memory of GPU `other`.
  Result<bool> sees(int ordinal, int other) const;

 private:
  Driver() = default;
  Result<void> find_functions(void* handle, const std::filesystem::path& path);
  Result<void> check_version(const std::filesystem::path& path);

  Functions functions_;
  int version_ = 0;
  int devices_ = 0;
};

}  // namespace lockstep::cu
