// A clock for LD_PRELOAD whose time of day jumps by hours, forwards and back, at every look.
#include <dlfcn.h>
#include <time.h>

#include <atomic>

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  using Original = int (*)(clockid_t, timespec*);
  static const auto original = reinterpret_cast<Original>(dlsym(RTLD_NEXT, "clock_gettime"));
  static std::atomic<int> looks = 0;
  const int result = original(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += (looks++ % 7 - 3) * 3600;
  return result;
}
