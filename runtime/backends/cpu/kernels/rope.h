// Rotary positions, one head at a time. Included by the isa_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/rowwise.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

LOCKSTEP_LANES_INLINE Lanes load_some(const float* p, int64_t n) {
  return n >= kLanes ? load(p) : load(p, static_cast<int>(n));
}

template <typename T>
LOCKSTEP_LANES_INLINE void copy_from(ConstRow x, Row dst, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) write<T>(dst.data, i, read<T>(x.data, i, end - i), end - i);
}

static void rope_halves(ConstRow x, const float* cosines, const float* sines, Row dst, int64_t rotated,
                        int64_t head_dim) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    const int64_t half = rotated / 2;
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t n = half - i;
      const Lanes a = read<T>(x.data, i, n), b = read<T>(x.data, half + i, n);
      const Lanes c = load_some(cosines + i, n), s = load_some(sines + i, n);
      write<T>(dst.data, i, a * c - b * s, n);
      write<T>(dst.data, half + i, b * c + a * s, n);
    }
    copy_from<T>(x, dst, rotated, head_dim);
  });
}

static void rope_neighbours(ConstRow x, const float* cosines, const float* sines, Row dst, int64_t rotated,
                            int64_t head_dim) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    for (int64_t i = 0; i < rotated; i += kLanes) {
      const int64_t n = rotated - i;
      const Lanes a = read<T>(x.data, i, n);
      const Lanes turned = a * load_some(cosines + i, n) + swap_neighbours(a) * load_some(sines + i, n);
      write<T>(dst.data, i, turned, n);
    }
    copy_from<T>(x, dst, rotated, head_dim);
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
