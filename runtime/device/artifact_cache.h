// The interface of a cache of compiled artifacts.
//
// Compilation can take hours, so an artifact is made once: by one rank, on one machine, possibly ahead of time. An
// artifact is a file; its key lists everything that it depends on.
//
//   backend ── key + how to make it ──► ArtifactCache ──► file      found, or made under a lock
//
// runtime/cache implements it over directories and remote tiers.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::device {

/// Everything that an artifact depends on. Equal backends and fields mean the same artifact.
struct ArtifactKey {
  std::string backend;  // "neuron"
  std::string step;     // "decode_2048": for messages; not part of the address
  // Name and value, in an order fixed by the backend: "module" and its SHA-256, "compiler" and its version, "flags",
  // "target", "ranks". The message of a miss names the fields that differ from the nearest existing artifact.
  std::vector<std::pair<std::string, std::string>> fields;

  friend bool operator==(const ArtifactKey&, const ArtifactKey&) = default;
};

/// Where the maker of an artifact writes: a private folder, not visible to other processes.
struct ArtifactWorkspace {
  std::filesystem::path folder;    // for intermediate files; removed afterwards
  std::filesystem::path artifact;  // must exist when the maker succeeds
  std::filesystem::path log;       // kept, also after a failure
};

/// Makes the artifact. @blocking
using MakeArtifact = std::function<Result<void>(const ArtifactWorkspace&)>;

/// An existing artifact.
struct Artifact {
  std::filesystem::path path;  // stays readable until the process ends
  bool was_made = false;       // by this call
  std::string origin;          // for the log: "compiled in 12.3 s", "from /var/cache/lockstep"
};

class ArtifactCache {
 public:
  virtual ~ArtifactCache() = default;

  /// The artifact of `key`, made if no tier has it. One process per host makes it; the others wait with a deadline.
  /// Fails with the maker's error (repeated without another attempt until a retry is requested), with
  /// `kFailedPrecondition` where a miss is an error, with `kDeadlineExceeded` when another maker takes too long.
  /// Thread-safe. @blocking
  virtual Result<Artifact> get(const ArtifactKey& key, const MakeArtifact& make) = 0;
};

}  // namespace lockstep::device
