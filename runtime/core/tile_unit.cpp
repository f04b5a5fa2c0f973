#include "runtime/core/tile_unit.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lockstep {

#if defined(__x86_64__)

namespace {

/// Reads CPUID leaf 7. GCC 12's __builtin_cpu_supports accepts the names of these features but returns false for each.
bool is_there() {
  constexpr unsigned kBFloat16 = 1u << 22, kTiles = 1u << 24, kInt8 = 1u << 25;
  constexpr unsigned kWanted = kBFloat16 | kTiles | kInt8;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kWanted) == kWanted;
}

bool is_granted() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool has_tile_unit() {
  static const bool has = is_there() && is_granted();
  return has;
}

#else

bool has_tile_unit() { return false; }

#endif

}  // namespace lockstep
