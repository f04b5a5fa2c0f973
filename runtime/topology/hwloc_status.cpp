#include "runtime/topology/hwloc_status.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace lockstep::topology {

Result<void> check(int status, ErrorKind kind, std::string_view operation, std::string_view advice) {
  if (status >= 0) return ok();
  return Error{kind, fmt::format("[runtime/topology] cannot {}: found '{}' from hwloc, expected success; {}", operation,
                                 std::generic_category().message(errno), advice)};
}

}  // namespace lockstep::topology
