#include "launcher/process/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

namespace lockstep::launcher {

Result<void> require_open_files() {
  constexpr rlim_t kLeast = 32;  // a rank alone has 20 open
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kLeast) return ok();
  return Error{ErrorKind::kUnavailable,
               fmt::format("[launcher] cannot start: found a limit of {} open files, expected at least {}; raise it "
                           "(ulimit -n)",
                           files.rlim_cur, kLeast)};
}

}  // namespace lockstep::launcher
