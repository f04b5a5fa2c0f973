// The compile cache: a folder of artifacts by content address, and further tiers behind it.
//
//   get(key) ─► folder ──found─────────────────────────────────────────────► artifact
//                 └miss─► lock of the key ─► folder again ─► further tiers ─┤ verified, kept in the folder
//                          (others wait)                          └miss─► make ─► offered to the further tiers
//
// All files are written under a temporary name and renamed, and verified on reading. See docs/compile_cache.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/log.h"
#include "runtime/device/artifact_cache.h"

namespace lockstep::cache {

/// Receives a line for the user. Called by the threads that call `get`.
using Say = std::function<void(LogLevel, const std::string&)>;

/// Credentials for signed requests to an object store. With an empty key, requests are not signed.
struct S3Account {
  std::string access_key, secret_key, session_token;
  std::string region = "us-east-1";
  std::string endpoint;  // "https://host[:port]", with the bucket as the first part of the path; empty: Amazon S3
};

/// Timeouts of a tier over HTTP, for each object.
struct RemoteDeadlines {
  double connect_s = 5.0;
  double silence_s = 20.0;  // without a byte in either direction; whole seconds, at least 1
  double whole_s = 900.0;
};

struct Options {
  std::filesystem::path folder;      // created on the first write
  std::vector<std::string> further;  // in the order of lookup: folders, http://, https:// or s3://bucket/prefix
  S3Account account;                 // of s3:// tiers
  RemoteDeadlines remote;
  bool require_cached = false;         // a miss is an error
  bool retry_failed = false;           // retry failures from before this cache was opened
  double wait_s = 3600.0;              // timeout while another process makes the same artifact
  std::optional<uint64_t> size_limit;  // bytes of `folder`; least recently used artifacts are evicted
  std::string build;                   // of this program: recorded with the artifacts it makes
  const AbortFlag* abort = nullptr;    // ends waits; may be null
  Say say = [](LogLevel, const std::string&) {};

  /// Fails with `kInvalidArgument` when no folder is named, or a further tier is of an unknown kind.
  Result<void> validate() const;
};

/// A cache over `options.folder`, which need not exist. `options.abort` outlives it. Artifacts that it returned are
/// protected from eviction during its lifetime. Fails as `validate` does.
///
/// `get` fails as device::ArtifactCache specifies, and with `kUnavailable` when the folder cannot be read or written.
Result<std::unique_ptr<device::ArtifactCache>> make_cache(Options options);

/// A read-only cache over a folder filled by `export_artifacts` or by another cache; it never makes or writes an
/// artifact. A miss is `kFailedPrecondition` and names the differences from the nearest artifact. Fails with
/// `kNotFound` when `folder` holds no artifacts.
Result<std::unique_ptr<device::ArtifactCache>> open_artifacts(const std::filesystem::path& folder, Say say);

/// An artifact for export: its key and the path that `get` returned.
struct ExportedArtifact {
  device::ArtifactKey key;
  std::filesystem::path path;
};

/// Adds copies of artifacts to `folder`; returns the number of bytes copied. The folder is a complete cache. Fails with
/// `kNotFound` when an artifact is missing, with `kUnavailable` when the folder cannot be written, with
/// `kInvalidArgument` when a key has unknown fields and no manifest lies beside the artifact. @blocking
Result<uint64_t> export_artifacts(const std::filesystem::path& folder, std::span<const ExportedArtifact> artifacts,
                                  const std::string& build);

}  // namespace lockstep::cache
