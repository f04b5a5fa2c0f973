// Keys of artifacts: their addresses, and in what two of them differ.
#pragma once

#include <string>
#include <vector>

#include "runtime/device/artifact_cache.h"

namespace lockstep::cache {

/// The name under which the artifact of `key` is kept: the SHA-256 of the backend and the fields in their order, each
/// with its length in front, so that different keys are different bytes. `step` is no part of it.
std::string address_of(const device::ArtifactKey& key);

/// The fields of `key` whose value is not known here.
std::vector<std::string> unknown_fields(const device::ArtifactKey& key);

/// One field in which two keys differ; "none" where a key does not have it.
struct Difference {
  std::string field, found, expected;

  friend bool operator==(const Difference&, const Difference&) = default;
};

/// Where `found` is not what `expected` asks for, in the order of `expected`. An unknown field of `expected` takes any
/// value.
std::vector<Difference> differences(const device::ArtifactKey& found, const device::ArtifactKey& expected);

/// `flags: found "-O1", expected "-O2"; ranks: …`. Long hexadecimal values are cut short where they still differ.
std::string to_text(const std::vector<Difference>& differences);

}  // namespace lockstep::cache
