// Sleeping on a word of shared memory. Never the private kind: the word may be mapped by several processes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <climits>

#include "runtime/core/clock.h"

namespace lockstep::transport::region {

static_assert(std::endian::native == std::endian::little, "the round is the lower half of the flag's word");

/// The half of a flag's word that the kernel compares.
inline uint32_t* round_word(std::atomic<uint64_t>& arrival) { return reinterpret_cast<uint32_t*>(&arrival); }

/// Sleeps while the round of `arrival` is `seen`, for at most `limit`. May return early.
inline void sleep_on_round(std::atomic<uint64_t>& arrival, uint32_t seen, Duration limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (limit - seconds).count()};
  syscall(SYS_futex, round_word(arrival), FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

inline void wake_sleepers(std::atomic<uint64_t>& arrival) {
  syscall(SYS_futex, round_word(arrival), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep::transport::region
