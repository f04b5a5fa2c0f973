// The compile cache as backends offer it to their users: its options, and the cache that their values describe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/core/abort_flag.h"
#include "runtime/core/log.h"
#include "runtime/device/artifact_cache.h"
#include "runtime/device/option_row.h"

namespace lockstep::cache {

/// Rows of a backend that compiles: where what it compiled is kept, and what a miss means. All that a build without the
/// cache has of it.
std::span<const device::OptionRow> option_rows();

/// What a cache is lent. Everything is borrowed and outlives it.
struct UserSite {
  std::string build;                                                        // which build of the program this is
  std::function<std::optional<std::string>(std::string_view)> environment;  // a variable of this process
  const Log* log = nullptr;                                                 // may be null
  const AbortFlag* abort = nullptr;                                         // ends its waits; may be null
};

/// What `options` describe, by the names of `option_rows`: an exported folder, or a cache with its further tiers. The
/// environment says where the user's cache folder is (XDG_CACHE_HOME, HOME) and, for s3:// tiers, the account
/// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL).
/// Nothing is written before something is compiled.
///
/// Fails with `kInvalidArgument` when no folder is named or a tier is of no known kind, with `kNotFound` when the
/// exported folder holds no artifacts.
Result<std::unique_ptr<device::ArtifactCache>> open_user_cache(const device::OptionReader& options,
                                                               const UserSite& site);

}  // namespace lockstep::cache
