// The user's options of the compile cache, and a cache opened with them.
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

/// Options of a backend that compiles: the location of artifacts, and the handling of a miss. A build without the cache
/// has only these.
std::span<const device::OptionRow> option_rows();

/// The environment of a user's cache. Everything is borrowed and outlives it.
struct UserSite {
  std::string build;                                                        // identifies the build of the program
  std::function<std::optional<std::string>(std::string_view)> environment;  // reads a variable of this process
  const Log* log = nullptr;                                                 // may be null
  const AbortFlag* abort = nullptr;                                         // ends its waits; may be null
};

/// Opens the cache described by `options`, with the names of `option_rows`: an exported folder, or a cache with further
/// tiers. The environment supplies the user's cache folder (XDG_CACHE_HOME, HOME) and, for s3:// tiers, the account
/// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL).
/// Nothing is written before the first compilation.
///
/// Fails with `kInvalidArgument` when no folder is named or a tier is of an unknown kind, with `kNotFound` when the
/// exported folder holds no artifacts.
Result<std::unique_ptr<device::ArtifactCache>> open_user_cache(const device::OptionReader& options,
                                                               const UserSite& site);

}  // namespace lockstep::cache
