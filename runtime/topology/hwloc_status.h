// hwloc's failures as errors.
#pragma once

#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::topology {

/// Ok where `status` is 0 or more; else the error of `operation` ("read the machine"), with the text of `errno`.
Result<void> check(int status, ErrorKind kind, std::string_view operation, std::string_view advice);

}  // namespace lockstep::topology
