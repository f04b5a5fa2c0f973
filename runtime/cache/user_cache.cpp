#include "runtime/cache/user_cache.h"

#include "runtime/cache/cache.h"

namespace lockstep::cache {
namespace {

std::string variable(const UserSite& site, std::string_view name) { return site.environment(name).value_or(""); }

/// The user's cache folder according to the XDG Base Directory Specification, which ignores relative paths.
Result<std::filesystem::path> user_cache_folder(const UserSite& site) {
  const std::filesystem::path xdg = variable(site, "XDG_CACHE_HOME");
  if (xdg.is_absolute()) return xdg;
  const std::filesystem::path home = variable(site, "HOME");
  if (home.is_absolute()) return home / ".cache";
  return Error{ErrorKind::kInvalidArgument,
               "[runtime/cache] no folder for the compile cache: found neither XDG_CACHE_HOME nor HOME in the "
               "environment, expected one of them; name a folder with --compile-cache"};
}

S3Account account_of(const UserSite& site) {
  S3Account account{.access_key = variable(site, "AWS_ACCESS_KEY_ID"),
                    .secret_key = variable(site, "AWS_SECRET_ACCESS_KEY"),
                    .session_token = variable(site, "AWS_SESSION_TOKEN"),
                    .endpoint = variable(site, "AWS_ENDPOINT_URL")};
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (const std::string region = variable(site, name); !region.empty()) {
      account.region = region;
      break;
    }
  }
  return account;
}

}  // namespace

Result<std::unique_ptr<device::ArtifactCache>> open_user_cache(const device::OptionReader& options,
                                                               const UserSite& site) {
  const Say say = [log = site.log](LogLevel level, const std::string& line) {
    if (log != nullptr) log->write(level, line);
  };
  if (options.is_given("artifacts")) return open_artifacts(options.text("artifacts"), say);
  std::filesystem::path folder = options.text("compile-cache");
  if (folder.empty()) {
    LOCKSTEP_TRY(const std::filesystem::path caches, user_cache_folder(site));
    folder = caches / "lockstep";
  }
  return make_cache({.folder = folder,
                     .further = options.list("compile-cache-remote"),
                     .account = account_of(site),
                     .require_cached = options.flag("require-cached"),
                     .retry_failed = options.flag("retry-failed"),
                     .wait_s = options.number("compile-wait-s"),
                     .size_limit = options.integer("compile-cache-limit"),
                     .build = site.build,
                     .abort = site.abort,
                     .say = say});
}

}  // namespace lockstep::cache
