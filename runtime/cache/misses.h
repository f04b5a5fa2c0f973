// Explains a missing artifact by its differences from the nearest existing one.
#pragma once

#include <string>
#include <vector>

#include "runtime/cache/key.h"
#include "runtime/cache/manifest.h"

namespace lockstep::cache {

/// The artifact of the same backend and step with the fewest different fields; among several, the newest. Null when
/// there is none. Points into `there`.
const Manifest* nearest(const std::vector<Manifest>& there, const device::ArtifactKey& key);

/// "found one that differs in flags: found "-O1", expected "-O2""; or that the step has no artifact, with a list of the
/// steps that have one.
std::string why_missing(const std::vector<Manifest>& there, const device::ArtifactKey& key);

}  // namespace lockstep::cache
