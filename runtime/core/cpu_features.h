// Detection of processor features whose names older versions of clang do not know.
#pragma once

#include <cpuid.h>

namespace lockstep {

/// Whether this machine converts float16. Whether the kernel saves the registers follows from AVX2, here and below.
inline bool has_f16c() {
  constexpr unsigned kFeatures = 1, kF16c = 1U << 29;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kFeatures, &a, &b, &c, &d) != 0 && (c & kF16c) != 0;
}

/// Whether this machine has AVX-VNNI.
inline bool has_avx_vnni() {
  constexpr unsigned kMoreFeatures = 7, kSecondPart = 1, kAvxVnni = 1U << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kMoreFeatures, kSecondPart, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
}

}  // namespace lockstep
