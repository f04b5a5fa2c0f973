// What sanitizers must know of fibers: which one runs, on which stack, and what orders them. Nothing without
// sanitizers.
//
// ThreadSanitizer takes each fiber for a thread. A switch orders nothing; only the launch and meetings do, so that it
// finds what a missing barrier leaves unordered, also between blocks. The scheduler's own accesses are not recorded:
// simt.cpp is compiled without instrumentation (LOCKSTEP_SIMT_TSAN), and its allocations count as fresh memory.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if defined(LOCKSTEP_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace lockstep::simt {

#if defined(LOCKSTEP_SIMT_TSAN)
constexpr bool kChecksRaces = true;
#else
constexpr bool kChecksRaces = false;
#endif

/// A fiber, or the scheduler, as the sanitizers see it.
struct CheckedStack {
  void* thread = nullptr;      // ThreadSanitizer's
  void* fake_stack = nullptr;  // AddressSanitizer's
  const void* begin = nullptr;
  size_t bytes = 0;
};

/// A fiber that begins on fresh memory.
inline CheckedStack make_checked([[maybe_unused]] void* stack, [[maybe_unused]] size_t bytes) {
  CheckedStack checked{.begin = stack, .bytes = bytes};
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack, bytes);
#endif
#if defined(LOCKSTEP_SIMT_TSAN)
  checked.thread = __tsan_create_fiber(0);
#endif
  return checked;
}

inline void end_checked([[maybe_unused]] CheckedStack& fiber) {
#if defined(LOCKSTEP_SIMT_TSAN)
  if (fiber.thread != nullptr) __tsan_destroy_fiber(fiber.thread);
  fiber.thread = nullptr;
#endif
}

/// Before the stacks of fibers are unmapped: a fiber leaves its frames as they are.
inline void release_checked([[maybe_unused]] void* stacks, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stacks, bytes);
#endif
}

/// Right before a jump between the two.
inline void leave([[maybe_unused]] CheckedStack& from, [[maybe_unused]] const CheckedStack& to,
                  [[maybe_unused]] bool for_ever = false) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &from.fake_stack, to.begin, to.bytes);
#endif
#if defined(LOCKSTEP_SIMT_TSAN)
  __tsan_switch_to_fiber(to.thread, __tsan_switch_to_fiber_no_sync);
#endif
}

/// Right after it, on the other side.
inline void arrive([[maybe_unused]] CheckedStack& at, [[maybe_unused]] CheckedStack& from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(at.fake_stack, &from.begin, &from.bytes);
#endif
}

/// What the caller did is ordered before what follows `order_after` of the same place elsewhere.
inline void order_before([[maybe_unused]] void* place) {
#if defined(LOCKSTEP_SIMT_TSAN)
  __tsan_release(place);
#endif
}
inline void order_after([[maybe_unused]] void* place) {
#if defined(LOCKSTEP_SIMT_TSAN)
  __tsan_acquire(place);
#endif
}

/// The scheduler of one grid: nothing that it does counts as an access, and what a thread that failed holds is no leak.
class CheckedScheduler {
 public:
  explicit CheckedScheduler([[maybe_unused]] CheckedStack& stack) {
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable();
#endif
#if defined(LOCKSTEP_SIMT_TSAN)
    stack.thread = __tsan_get_current_fiber();
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  ~CheckedScheduler() {
#if defined(__SANITIZE_ADDRESS__)
    __lsan_enable();
#endif
#if defined(LOCKSTEP_SIMT_TSAN)
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
  CheckedScheduler(const CheckedScheduler&) = delete;
  CheckedScheduler& operator=(const CheckedScheduler&) = delete;
};

}  // namespace lockstep::simt
