#include <array>

#include "runtime/cache/user_cache.h"

namespace lockstep::cache {

std::span<const device::OptionRow> option_rows() {
  using enum device::OptionKind;
  using enum device::OptionUse;
  constexpr std::string_view kSection = "Compile cache of backends that compile ahead of time (docs/compile_cache.md)";
  static constexpr std::array kRows = {
      device::OptionRow{.name = "compile-cache",
                        .value_name = "DIR",
                        .help = "Folder of compiled steps; default: lockstep in $XDG_CACHE_HOME or ~/.cache",
                        .section = kSection,
                        .kind = kPath,
                        .use = kCompiling},
      device::OptionRow{.name = "compile-cache-remote",
                        .value_name = "URL",
                        .help = "Asked when the folder has none, and filled: another folder, http(s)://… or "
                                "s3://BUCKET/PREFIX; may be repeated",
                        .section = kSection,
                        .kind = kList,
                        .use = kCompiling},
      device::OptionRow{.name = "artifacts",
                        .value_name = "DIR",
                        .help = "Compiled steps that lockstep export wrote; nothing else is used, nothing compiled",
                        .section = kSection,
                        .kind = kPath,
                        .use = kCompiling,
                        .excludes = "compile-cache|compile-cache-remote|retry-failed|compile-cache-limit"},
      device::OptionRow{.name = "require-cached",
                        .help = "A step that is not in the cache is an error",
                        .section = kSection,
                        .kind = kFlag,
                        .use = kCompiling},
      device::OptionRow{.name = "retry-failed",
                        .help = "Compile again what failed to compile before",
                        .section = kSection,
                        .kind = kFlag,
                        .use = kCompiling},
      device::OptionRow{.name = "compile-wait-s",
                        .value_name = "S",
                        .otherwise = "3600",
                        .help = "Seconds to wait for another process that compiles the same step",
                        .section = kSection,
                        .kind = kNumber,
                        .use = kCompiling,
                        .least = 0,
                        .most = 1e6},
      device::OptionRow{.name = "compile-cache-limit",
                        .value_name = "BYTES",
                        .help = "Bytes of the folder; what was not used for longest makes room; default: no limit",
                        .section = kSection,
                        .kind = kInteger,
                        .use = kCompiling,
                        .least = 1,
                        .most = 0x1p60},
  };
  return kRows;
}

}  // namespace lockstep::cache
