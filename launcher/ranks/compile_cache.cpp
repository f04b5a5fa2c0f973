#include "launcher/ranks/compile_cache.h"

#include <cstdlib>
#include <string>

#include "launcher/ranks/build_id.h"
#include "runtime/cache/cache.h"

namespace lockstep::launcher {
namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The folder of programs' caches, as the XDG Base Directory Specification says: a relative path counts as none.
Result<std::filesystem::path> user_cache_folder() {
  const std::filesystem::path xdg = from_environment("XDG_CACHE_HOME");
  if (xdg.is_absolute()) return xdg;
  const std::filesystem::path home = from_environment("HOME");
  if (home.is_absolute()) return home / ".cache";
  return Error{ErrorKind::kInvalidArgument,
               "[launcher] no folder for the compile cache: found neither XDG_CACHE_HOME nor HOME in the environment, "
               "expected one of them; name a folder with --compile-cache"};
}

cache::S3Account account_from_environment() {
  cache::S3Account account{.access_key = from_environment("AWS_ACCESS_KEY_ID"),
                           .secret_key = from_environment("AWS_SECRET_ACCESS_KEY"),
                           .session_token = from_environment("AWS_SESSION_TOKEN"),
                           .endpoint = from_environment("AWS_ENDPOINT_URL")};
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (const std::string region = from_environment(name); !region.empty()) {
      account.region = region;
      break;
    }
  }
  return account;
}

}  // namespace

Result<std::unique_ptr<device::ArtifactCache>> make_compile_cache(const CacheOptions& options, const Log& log,
                                                                  const AbortFlag* abort) {
  const cache::Say say = [&log](LogLevel level, const std::string& line) { log.write(level, line); };
  if (options.artifacts) return cache::open_artifacts(*options.artifacts, say);
  std::filesystem::path folder = options.directory.value_or("");
  if (!options.directory) {
    LOCKSTEP_TRY(const std::filesystem::path caches, user_cache_folder());
    folder = caches / "lockstep";
  }
  return cache::make_cache({.folder = folder,
                            .further = options.remotes,
                            .account = account_from_environment(),
                            .require_cached = options.require_cached,
                            .retry_failed = options.retry_failed,
                            .wait_s = options.wait_s,
                            .size_limit = options.limit ? std::optional<uint64_t>(*options.limit) : std::nullopt,
                            .build = build_id(),
                            .abort = abort,
                            .say = say});
}

}  // namespace lockstep::launcher
