// Prefetching of streams of weights. Included by headers that the isa_*.cpp files include after lanes.h.
#pragma once

#include "runtime/backends/cpu/isa.h"
#include "runtime/backends/cpu/kernels/lanes.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

constexpr int64_t kLine = 64;
constexpr int kToFirstLevel = 3, kToSecondLevel = 2;  // cache levels, in the encoding of __builtin_prefetch

/// Prefetches what a stream reads later, as many lines as it reads at `at` now.
template <int kBytes>
LOCKSTEP_LANES_INLINE void prefetch_stream(const std::byte* at, const StreamPrefetch& ahead) {
#pragma GCC unroll 4
  for (int line = 0; line < kBytes; line += kLine) {
    __builtin_prefetch(at + ahead.far + line, 0, kToSecondLevel);
    __builtin_prefetch(at + ahead.near + line, 0, kToFirstLevel);
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
