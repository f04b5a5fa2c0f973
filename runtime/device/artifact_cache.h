// Where a backend that compiles for seconds or hours keeps what came out, so that it is compiled once: by one rank, on
// one machine, ahead of time if need be. An artifact is a file; what it depends on is its key.
//
//   backend ── key + how to make it ──► ArtifactCache ──► file      found, or made under a lock while others wait
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

/// All that an artifact depends on. Two keys with equal backends and fields name the same artifact.
struct ArtifactKey {
  std::string backend;  // "neuron"
  std::string step;     // "decode_2048": for messages; no part of the address
  // Name and value, in an order that the backend fixes: "module" and its SHA-256, "compiler" and its version, "flags",
  // "target", "ranks". A miss names those that differ from the nearest artifact there is.
  std::vector<std::pair<std::string, std::string>> fields;

  friend bool operator==(const ArtifactKey&, const ArtifactKey&) = default;
};

/// Where the maker of an artifact writes. All lies in a folder of its own, which no other process sees.
struct ArtifactWorkspace {
  std::filesystem::path folder;    // for intermediate files; removed afterwards
  std::filesystem::path artifact;  // what must be there when the maker succeeds
  std::filesystem::path log;       // kept, also of a failure
};

/// Makes the artifact. @blocking
using MakeArtifact = std::function<Result<void>(const ArtifactWorkspace&)>;

/// An artifact that is there.
struct Artifact {
  std::filesystem::path path;  // stays readable until the process ends
  bool was_made = false;       // by this call
  std::string origin;          // for the log: "compiled in 12.3 s", "from /var/cache/lockstep"
};

class ArtifactCache {
 public:
  virtual ~ArtifactCache() = default;

  /// The artifact of `key`; makes it when no tier has it. One process of a host makes it, the others wait for that one
  /// with a deadline. Fails with the maker's error (again, without another try, until a retry is asked for), with
  /// `kFailedPrecondition` where a miss is an error, with `kDeadlineExceeded` when the maker elsewhere takes too long.
  /// Thread-safe. @blocking
  virtual Result<Artifact> get(const ArtifactKey& key, const MakeArtifact& make) = 0;
};

}  // namespace lockstep::device
