// A folder of this user alone, for the sockets and records of processes that this one starts.
#pragma once

#include <filesystem>
#include <utility>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Removed with the object.
class PrivateFolder {
 public:
  /// Fails with `kUnavailable` when there is no place for it.
  static Result<PrivateFolder> make();
  ~PrivateFolder();
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateFolder& operator=(PrivateFolder&&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit PrivateFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace lockstep::launcher
