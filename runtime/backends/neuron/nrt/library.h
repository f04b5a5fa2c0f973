// The Neuron runtime library, loaded when the backend is chosen. Building and starting the program needs no AWS
// software.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/backends/neuron/nrt/abi.h"
#include "runtime/core/result.h"

namespace lockstep::nrt {

/// The folder of AWS's packages.
inline constexpr const char* kLibraryName = "libnrt.so.1";
inline constexpr const char* kInstallFolder = "/opt/aws/neuron/lib";
/// The major version of the runtime that abi.h describes.
inline constexpr uint64_t kMajorVersion = 2;

/// A loaded library. It stays loaded until the process ends, because its threads may still run.
class Library {
 public:
  /// Loads `path`: a file, or a name to find on the system's library path and then in kInstallFolder. Fails with
  /// `kUnavailable` when the library does not exist (naming the package to install), when it lacks functions (naming
  /// all of them), and when its version differs.
  static Result<std::unique_ptr<Library>> open(const std::filesystem::path& path);

  const Functions& functions() const { return functions_; }
  /// "2.26.5.0".
  const std::string& version() const { return version_; }
  /// The path passed to `open`.
  const std::filesystem::path& path() const { return path_; }

 private:
  Library() = default;
  Result<void> find_functions(void* handle);
  Result<void> check_version();

  Functions functions_;
  std::string version_;
  std::filesystem::path path_;
};

}  // namespace lockstep::nrt
