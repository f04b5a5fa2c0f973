// The Neuron runtime library, loaded when the backend is chosen: nothing of AWS's is needed to build or to start the
// program.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/backends/neuron/nrt/abi.h"
#include "runtime/core/result.h"

namespace lockstep::nrt {

/// Where AWS's packages put it.
inline constexpr const char* kLibraryName = "libnrt.so.1";
inline constexpr const char* kInstallFolder = "/opt/aws/neuron/lib";
/// The major version of the runtime whose interface abi.h has.
inline constexpr uint64_t kMajorVersion = 2;

/// A loaded library. It stays loaded until the process ends: its threads may outlive what we know of.
class Library {
 public:
  /// Loads `path`: a file, or a name that is looked for where the system looks for libraries and then in
  /// kInstallFolder. Fails with `kUnavailable` when there is no such library (saying what to install), when it lacks a
  /// function (naming all that it lacks), and when its version is another.
  static Result<std::unique_ptr<Library>> open(const std::filesystem::path& path);

  const Functions& functions() const { return functions_; }
  /// "2.26.5.0".
  const std::string& version() const { return version_; }
  /// What was loaded, as it was asked for.
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
