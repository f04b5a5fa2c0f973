// Detection of AVX-VNNI, whose name older versions of clang do not know.
#pragma once

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace lockstep {

/// Whether this machine has it; whether the kernel saves its registers follows from AVX2.
inline bool has_avx_vnni() {
#ifdef __x86_64__
  constexpr unsigned kFeatures = 7, kSecondPart = 1, kAvxVnni = 1U << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kFeatures, kSecondPart, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
#else
  return false;
#endif
}

}  // namespace lockstep
