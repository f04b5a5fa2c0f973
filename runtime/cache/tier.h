// What stands behind a cache's own folder: asked when the folder has nothing, and filled after something was made.
// Whatever it brings is verified by the cache; whatever it fails at is said and gone around.
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

  /// For messages; holds no password.
  virtual const std::string& name() const = 0;

  /// Writes the artifact of `key` into `draft` and returns its manifest, not verified; nothing when the tier has none.
  /// Fails with `kUnavailable` or `kDeadlineExceeded` when the tier is of no use now, with other kinds when this
  /// artifact is. @blocking
  virtual Result<std::optional<Manifest>> fetch(const device::ArtifactKey& key, const Draft& draft) = 0;

  /// Gives it a copy. Fails alike. @blocking
  virtual Result<void> offer(const Entry& entry) = 0;

  /// What it holds, for messages; empty where that cannot be listed.
  virtual std::vector<Manifest> manifests() const = 0;
};

/// A folder, perhaps on another machine. It is made when it is first filled.
std::unique_ptr<Tier> make_folder_tier(std::filesystem::path folder);

/// An http://, https:// or s3:// address: objects `ADDRESS.manifest` and `ADDRESS.artifact` below it. Fails with
/// `kInvalidArgument` when it is none of these, with `kUnavailable` when libcurl is not there.
Result<std::unique_ptr<Tier>> make_remote_tier(const std::string& url, const Options& options);

/// Whether `text` is an address rather than a folder.
bool is_address(const std::string& text);

}  // namespace lockstep::cache
