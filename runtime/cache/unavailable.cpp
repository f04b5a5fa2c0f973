// What a build without the compile cache has of it: its options, and the reason why they cannot be had.
#include "runtime/cache/cache.h"
#include "runtime/cache/user_cache.h"

namespace lockstep::cache {
namespace {

Error missing() {
  return {ErrorKind::kUnavailable,
          "[runtime/cache] no compile cache: this build lacks it; configure with -DLOCKSTEP_WITH_CACHE=ON"};
}

}  // namespace

Result<void> available() { return missing(); }

Result<std::unique_ptr<device::ArtifactCache>> open_user_cache(const device::OptionReader&, const UserSite&) {
  return missing();
}

Result<uint64_t> export_artifacts(const std::filesystem::path&, std::span<const ExportedArtifact>, const std::string&) {
  return missing();
}

}  // namespace lockstep::cache
