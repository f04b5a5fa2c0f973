// Kernels of recurrent layers: causal convolution, norms and decays of the delta rule. Included by the isa_*.cpp files
// after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/activation.h"
#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

static void convolve(const ConvolvedRow& row) {
  with_type(row.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    for (int64_t i = 0; i < row.channels; i += kLanes) {
      const int64_t n = row.channels - i;
      Lanes sum = zero();
      for (int tap = 0; tap < row.taps; ++tap) {
        if (row.rows[tap] == nullptr) continue;
        sum = fma(read<T>(row.weights + tap * row.weight_stride, i, n), read<T>(row.rows[tap], i, n), sum);
      }
      if (row.activates) with_plain(row.activation.kind, [&](auto kind) { sum = decltype(kind)::Type::of(sum); });
      write<T>(row.dst, i, sum, n);
    }
  });
}

static void normalise(const float* x, float* dst, int64_t count, float epsilon, float scale) {
  const auto* const from = reinterpret_cast<const std::byte*>(x);
  Lanes squares = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes value = read<float>(from, i, count - i);
    squares = fma(value, value, squares);
  }
  const Lanes factor = splat(scale / __builtin_sqrtf(sum_of(squares) + epsilon));
  for (int64_t i = 0; i < count; i += kLanes) {
    write<float>(reinterpret_cast<std::byte*>(dst), i, read<float>(from, i, count - i) * factor, count - i);
  }
}

static void decay(const float* x, const float* then, float now, float* dst, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i;
    const Lanes whole = exp(splat(now) - read<float>(reinterpret_cast<const std::byte*>(then), i, n));
    const Lanes share = larger(zero(), whole - splat(kLeastDecay));  // in this order a NaN stays one
    write<float>(reinterpret_cast<std::byte*>(dst), i, read<float>(reinterpret_cast<const std::byte*>(x), i, n) * share,
                 n);
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
