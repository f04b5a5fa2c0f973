// Counts the calling thread's allocations, locks and system calls.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::step {

/// Counts of one thread.
struct Asked {
  int64_t allocations = 0;   // through operator new
  int64_t locks = 0;         // mutexes and read-write locks taken, or tried
  int64_t system_calls = 0;  // all but those by which a thread waits (sched_yield, futex)
  int64_t waits = 0;         // those
  int64_t last_call = -1;    // the number of the last of `system_calls`

  Asked& operator+=(const Asked& other);
  friend Asked operator-(const Asked& a, const Asked& b);
  bool is_nothing() const { return allocations == 0 && locks == 0 && system_calls == 0; }
};
std::string to_string(const Asked& asked);

/// Whether this machine can count system calls; found out in a child process.
bool can_watch();

/// From now on the calling thread's system calls are trapped and counted. For good: the thread must not end, so the
/// process has to leave by `_exit` in another one. False where the machine
/// cannot.
bool watch_this_thread();

/// The calling thread's counts so far; system calls since `watch_this_thread`.
Asked asked_by_this_thread();

}  // namespace lockstep::step
