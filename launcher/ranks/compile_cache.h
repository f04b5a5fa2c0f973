// The compile cache that the command line asks for.
#pragma once

#include <memory>

#include "launcher/cli/command_line.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/log.h"
#include "runtime/device/artifact_cache.h"

namespace lockstep::launcher {

/// What `options` describe: an exported folder, or a cache with its further tiers. Reads where the user's cache folder
/// is (XDG_CACHE_HOME, HOME) and, for s3:// tiers, the account (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
/// AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL) from the environment. `log` outlives the
/// cache, as does `abort`, which ends its waits and may be null. Nothing is written before something is compiled.
///
/// Fails with `kInvalidArgument` when no folder is named or a tier is of no known kind, with `kNotFound` when the
/// exported folder holds no artifacts.
Result<std::unique_ptr<device::ArtifactCache>> make_compile_cache(const CacheOptions& options, const Log& log,
                                                                  const AbortFlag* abort = nullptr);

}  // namespace lockstep::launcher
