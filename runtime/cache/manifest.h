// The description stored beside an artifact, as a value and as bytes (manifest.capnp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/digest.h"
#include "runtime/device/artifact_cache.h"

namespace lockstep::cache {

/// The version of the format; other versions are rejected.
inline constexpr uint32_t kManifestVersion = 1;

/// An upper bound of a manifest's size.
inline constexpr uint64_t kMostManifestBytes = uint64_t{1} << 20;

struct Manifest {
  device::ArtifactKey key;
  FileDigest artifact;
  int64_t made_at = 0;  // milliseconds since 1970
  double took_s = 0.0;
  std::string build, host;
  std::optional<Error> failure;  // of an attempt without an artifact

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::vector<std::byte> encode(const Manifest& manifest);

/// Fails with `kInvalidArgument` when the bytes are not a manifest of this version.
Result<Manifest> decode_manifest(std::span<const std::byte> bytes);

}  // namespace lockstep::cache
