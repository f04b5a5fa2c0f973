// NCCL, loaded when GPUs of several hosts are to be connected. Building and starting the program needs no NCCL.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/core/result.h"
#include "transport/nccl/abi.h"

namespace lockstep::transport::nccl {

/// Communicators that do not block, and the calls that captures hold. Older ones do not know CUDA 13.
inline constexpr int kOldestVersion = 22707;

/// A loaded library. It stays loaded until the process ends, because its threads may still run. Thread-safe.
class Library {
 public:
  /// Loads `path` (a file, or a name on the system's library path). Fails with `kUnavailable` when there is no such
  /// library, when it lacks functions (naming all of them), and when it is too old.
  static Result<std::shared_ptr<const Library>> open(const std::filesystem::path& path);

  const Functions& functions() const { return functions_; }
  /// "2.28.9".
  std::string version_text() const;

 private:
  Library() = default;
  Result<void> find_functions(void* handle, const std::filesystem::path& path);
  Result<void> check_version(const std::filesystem::path& path);

  Functions functions_;
  int version_ = 0;
};

}  // namespace lockstep::transport::nccl
