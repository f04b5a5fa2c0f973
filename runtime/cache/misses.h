// Why there is no artifact for a key, in words: what differs from the nearest one there is.
#pragma once

#include <string>
#include <vector>

#include "runtime/cache/key.h"
#include "runtime/cache/manifest.h"

namespace lockstep::cache {

/// The artifact of the same backend and step that differs in the fewest fields; of several, the newest. Null when there
/// is none. Points into `there`.
const Manifest* nearest(const std::vector<Manifest>& there, const device::ArtifactKey& key);

/// "found one that differs in flags: found "-O1", expected "-O2"", or that there is no artifact of the step, and of
/// which there are.
std::string why_missing(const std::vector<Manifest>& there, const device::ArtifactKey& key);

}  // namespace lockstep::cache
