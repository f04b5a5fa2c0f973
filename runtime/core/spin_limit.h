// How long a wait spins before it sleeps, learnt from the waits before.
//
// Where each thread has a core, a peer is late by some microseconds, and spinning finds it soonest. Where other
// programs run beside, a peer may have lost its core for milliseconds; a thread that spins meanwhile uses up its own
// share of the processor, which it needs afterwards. So a wait spins about as long as a sleep and its end cost, then
// sleeps:
//
//   the peer comes    while spinning     soon after the start of a sleep    much later
//   the limit         stays              doubles                            halves
#pragma once

#include <atomic>

#include "runtime/core/clock.h"

namespace lockstep {

/// The core's hint for a spinning wait.
inline void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The number of pauses that take that long on this machine; measured once in a process (0.1 ms).
int pauses_in(Duration time);

/// The limit of one or several threads. Thread-safe.
class SpinLimit {
 public:
  static constexpr Duration kShortest = std::chrono::microseconds(50);
  static constexpr Duration kLongest = std::chrono::microseconds(400);

  /// Starts with a limit of `first`; one outside kShortest to kLongest is never changed.
  explicit SpinLimit(Duration first = 2 * kShortest);

  /// Pauses before a wait sleeps.
  int pauses() const { return pauses_.load(std::memory_order_relaxed); }
  /// From a wait that ended `asleep` after it began to sleep.
  void learn(Duration asleep);

 private:
  const int shortest_, longest_;
  std::atomic<int> pauses_;
};

}  // namespace lockstep
