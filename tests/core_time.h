// The processor time of a thread: what a wait costs, whatever else runs on the machine.
#pragma once

#include <time.h>

#include "runtime/core/clock.h"

namespace lockstep {

/// What the calling thread has used so far.
inline Duration own_core_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Computes for that long.
inline void use_core_for(Duration time) {
  const Duration end = own_core_time() + time;
  while (own_core_time() < end) {
  }
}

}  // namespace lockstep
