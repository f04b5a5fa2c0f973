// The limit of open files.
#pragma once

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Fails with `kUnavailable` where so few files may be opened that sockets and libraries would lack them in the middle
/// of a run.
Result<void> require_open_files();

}  // namespace lockstep::launcher
