// Sleeping on a word of memory until another thread or process changes it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <climits>
#include <cstdint>

#include "runtime/core/clock.h"

namespace lockstep {

/// Who may sleep on a word: threads of this process, or of all that map it.
enum class WordScope { kProcess, kShared };

/// The lower half of a word of 64 bits, which is what the kernel compares.
inline uint32_t* lower_half(std::atomic<uint64_t>& word) {
  static_assert(std::endian::native == std::endian::little);
  return reinterpret_cast<uint32_t*>(&word);
}

inline uint32_t* address_of(std::atomic<uint32_t>& word) { return reinterpret_cast<uint32_t*>(&word); }

/// Sleeps while `*word` is `seen`, for at most `limit`. May return early.
/// @blocking
inline void sleep_on(const uint32_t* word, uint32_t seen, Duration limit, WordScope scope) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (limit - seconds).count()};
  syscall(SYS_futex, word, scope == WordScope::kShared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
}

/// Wakes all who sleep on `word`.
inline void wake_all(const uint32_t* word, WordScope scope) {
  syscall(SYS_futex, word, scope == WordScope::kShared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep
