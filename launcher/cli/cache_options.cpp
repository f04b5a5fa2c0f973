#include <CLI/CLI.hpp>

#include "launcher/cli/shared_options.h"

namespace lockstep::launcher {

void add_cache_options(CLI::App& app, CacheOptions& options) {
  begin_section(app, "Compile cache of backends that compile ahead of time (docs/compile_cache.md)");
  app.add_option("--compile-cache", options.directory,
                 "Folder of compiled steps; default: lockstep in $XDG_CACHE_HOME or ~/.cache")
      ->type_name("DIR");
  app.add_option(
         "--compile-cache-remote", options.remotes,
         "Asked when the folder has none, and filled: another folder, http(s)://… or s3://BUCKET/PREFIX; may be "
         "given again")
      ->allow_extra_args(false)
      ->type_name("URL");
  auto* artifacts = app.add_option("--artifacts", options.artifacts,
                                   "Compiled steps that lockstep export wrote; nothing else is used, nothing compiled")
                        ->type_name("DIR");
  for (const char* name : {"--compile-cache", "--compile-cache-remote"}) artifacts->excludes(app.get_option(name));
  app.add_flag("--require-cached", options.require_cached, "A step that is not in the cache is an error");
  auto* retry = app.add_flag("--retry-failed", options.retry_failed, "Compile again what failed to compile before");
  artifacts->excludes(retry);
  app.add_option("--compile-wait-s", options.wait_s, "Seconds to wait for another process that compiles the same step")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str()
      ->type_name("S");
  auto* limit = app.add_option("--compile-cache-limit", options.limit,
                               "Bytes of the folder; what was not used for longest makes room; default: no limit")
                    ->check(CLI::Range(int64_t{1}, int64_t{1} << 60))
                    ->type_name("BYTES");
  artifacts->excludes(limit);
}

}  // namespace lockstep::launcher
