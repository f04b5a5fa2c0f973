// Waiting for one file descriptor.
#pragma once

#include <cerrno>

#include "runtime/core/clock.h"

namespace lockstep {

/// Whether `descriptor` is ready for `events` (`POLLIN`, `POLLOUT`) within `limit`; with none it looks once. An error
/// and a closed other end count as ready: the next call that uses the descriptor names them. A negative descriptor
/// never is. @blocking
bool becomes_ready(int descriptor, short events, Duration limit);

/// Whether a call on a descriptor failed with a `code` that only means: try again when it is ready.
inline bool is_temporary(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

}  // namespace lockstep
