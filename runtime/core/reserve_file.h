// Memory or disk for a part of a file, before it is used.
#pragma once

#include <fcntl.h>

#include <cerrno>

namespace lockstep {

/// posix_fallocate, begun again after signals: a file in memory loses what it had got at each. Returns an errno; 0: the
/// part is there.
inline int reserve_file(int descriptor, off_t begin, off_t size) {
  constexpr int kAttempts = 100;  // against signals without end
  int error = EINTR;
  for (int attempt = 0; error == EINTR && attempt < kAttempts; ++attempt) {
    error = posix_fallocate(descriptor, begin, size);
  }
  return error;
}

}  // namespace lockstep
