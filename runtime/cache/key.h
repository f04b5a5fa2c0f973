// Keys of artifacts: addresses and differences.
#pragma once

#include <string>
#include <vector>

#include "runtime/device/artifact_cache.h"

namespace lockstep::cache {

/// The content address of `key`: the SHA-256 of the backend and the fields in order, each prefixed with its length, so
/// that different keys are different bytes. `step` is not part of it.
std::string address_of(const device::ArtifactKey& key);

/// The fields of `key` without a known value.
std::vector<std::string> unknown_fields(const device::ArtifactKey& key);

/// A field with different values in two keys; "none" where it is missing.
struct Difference {
  std::string field, found, expected;

  friend bool operator==(const Difference&, const Difference&) = default;
};

/// The differences of `found` from `expected`, in the order of `expected`. An unknown field of `expected` matches any
/// value.
std::vector<Difference> differences(const device::ArtifactKey& found, const device::ArtifactKey& expected);

/// `flags: found "-O1", expected "-O2"; ranks: …`. Long hexadecimal values are shortened as far as they still differ.
std::string to_text(const std::vector<Difference>& differences);

}  // namespace lockstep::cache
