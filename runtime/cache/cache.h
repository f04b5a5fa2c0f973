// The compile cache: a folder of artifacts under content addresses, and further tiers behind it.
//
//   get(key) ─► folder ──found─────────────────────────────────────────────► artifact
//                 └miss─► lock of the key ─► folder again ─► further tiers ─┤ verified, kept in the folder
//                          (others wait)                          └miss─► make ─► offered to the further tiers
//
// Everything is written beside its name and renamed, and verified when it is read. docs/compile_cache.md has the rest.
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

/// Takes a line for the user. Called by the threads that call `get`.
using Say = std::function<void(LogLevel, const std::string&)>;

/// What signs requests to an object store. An empty key: requests are not signed.
struct S3Account {
  std::string access_key, secret_key, session_token;
  std::string region = "us-east-1";
  std::string endpoint;  // "https://host[:port]": buckets are the first part of its paths; empty: Amazon's own
};

/// How long a tier over HTTP may take, each object by itself.
struct RemoteDeadlines {
  double connect_s = 5.0;
  double silence_s = 20.0;  // without a byte either way; whole seconds, at least 1
  double whole_s = 900.0;
};

struct Options {
  std::filesystem::path folder;      // made when something is to be written
  std::vector<std::string> further;  // asked in order: folders, http://, https:// or s3://bucket/prefix
  S3Account account;                 // of s3:// tiers
  RemoteDeadlines remote;
  bool require_cached = false;         // a miss is an error
  bool retry_failed = false;           // make again what failed before this cache was opened
  double wait_s = 3600.0;              // for another maker of the same artifact
  std::optional<uint64_t> size_limit;  // bytes of `folder`; least recently used artifacts make room
  std::string build;                   // of this program: recorded with what it makes
  const AbortFlag* abort = nullptr;    // ends waits; may be null
  Say say = [](LogLevel, const std::string&) {};

  /// Fails with `kInvalidArgument` when there is no folder, or a further tier is none of the kinds above.
  Result<void> validate() const;
};

/// A cache over `options.folder`, which need not exist. `options.abort` outlives it. An artifact that it returned is
/// not evicted by anyone as long as the cache lives. Fails as `validate` does.
///
/// `get` fails as device::ArtifactCache says, and with `kUnavailable` when the folder cannot be read or written.
Result<std::unique_ptr<device::ArtifactCache>> make_cache(Options options);

/// A cache over a folder that `export_artifacts` filled, or any cache's: what is there is used, nothing is ever made or
/// written. What is not there is `kFailedPrecondition` naming what differs from the nearest artifact. Fails with
/// `kNotFound` when `folder` holds no artifacts.
Result<std::unique_ptr<device::ArtifactCache>> open_artifacts(const std::filesystem::path& folder, Say say);

/// An artifact to be exported: a key, and where `get` said that it is.
struct ExportedArtifact {
  device::ArtifactKey key;
  std::filesystem::path path;
};

/// Copies artifacts into `folder`, beside what it holds already; returns the bytes that were copied. The folder is a
/// cache of its own. Fails with `kNotFound` when an artifact is not there, with `kUnavailable` when the folder cannot
/// be written, with `kInvalidArgument` when a key has unknown fields and no manifest lies beside the artifact.
/// @blocking
Result<uint64_t> export_artifacts(const std::filesystem::path& folder, std::span<const ExportedArtifact> artifacts,
                                  const std::string& build);

}  // namespace lockstep::cache
