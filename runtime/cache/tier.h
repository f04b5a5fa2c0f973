// The interface of further cache tiers. A tier is read when the folder has no artifact, and filled after one was made.
// The cache verifies every fetched artifact; errors of a tier are logged and never fail a job.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/cache.h"
#include "runtime/cache/folder.h"

namespace lockstep::cache {

/// Thread-safe.
class Tier {
 public:
  virtual ~Tier() = default;

  /// For messages; without a password.
  virtual const std::string& name() const = 0;

  /// Writes the artifact of `key` into `draft` and returns its manifest, not yet verified; empty when the tier has
  /// none. Fails with `kUnavailable` or `kDeadlineExceeded` when the tier is unusable now, with other kinds when the
  /// artifact is. @blocking
  virtual Result<std::optional<Manifest>> fetch(const device::ArtifactKey& key, const Draft& draft) = 0;

  /// Stores a copy of the entry. Fails as `fetch` does. @blocking
  virtual Result<void> offer(const Entry& entry) = 0;

  /// The manifests it holds, for messages; empty if they cannot be listed.
  virtual std::vector<Manifest> manifests() const = 0;
};

/// A folder, possibly on another machine. Created on the first write.
std::unique_ptr<Tier> make_folder_tier(std::filesystem::path folder);

/// An http://, https:// or s3:// address with objects `ADDRESS.manifest` and `ADDRESS.artifact` below it. Fails with
/// `kInvalidArgument` for other addresses, with `kUnavailable` without libcurl.
Result<std::unique_ptr<Tier>> make_remote_tier(const std::string& url, const Options& options);

/// Whether `text` is an address instead of a folder.
bool is_address(const std::string& text);

}  // namespace lockstep::cache
