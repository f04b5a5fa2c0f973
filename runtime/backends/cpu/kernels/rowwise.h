// Kernels over single rows: conversion, sums, norms, activations, rope. Included by the isa_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// A floating-point type as a value, to pick a template by.
template <typename T>
struct TypeTag {
  using Type = T;
};

template <typename Function>
LOCKSTEP_LANES_INLINE void with_type(DType dtype, Function function) {
  if (dtype == DType::kFloat32) return function(TypeTag<float>{});
  if (dtype == DType::kBFloat16) return function(TypeTag<BFloat16>{});
  function(TypeTag<Float16>{});
}

/// Sixteen elements from `at` on (or the `n` that are left), as float32.
template <typename T>
LOCKSTEP_LANES_INLINE Lanes read(const std::byte* data, int64_t at, int64_t n) {
  const T* p = reinterpret_cast<const T*>(data) + at;
  return n >= kLanes ? load(p) : load(p, static_cast<int>(n));
}
template <typename T>
LOCKSTEP_LANES_INLINE void write(std::byte* data, int64_t at, Lanes value, int64_t n) {
  T* p = reinterpret_cast<T*>(data) + at;
  if (n >= kLanes) return store(p, value);
  store(p, value, static_cast<int>(n));
}

/// `value` as it is after being stored as a T and loaded again.
template <typename T>
LOCKSTEP_LANES_INLINE Lanes rounded_to(Lanes value) {
  T buffer[kLanes];
  store(buffer, value);
  return load(buffer);
}

static void add_floats(float* dst, const float* src, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i;
    Lanes sum = n >= kLanes ? load(dst + i) : load(dst + i, static_cast<int>(n));
    sum = sum + (n >= kLanes ? load(src + i) : load(src + i, static_cast<int>(n)));
    if (n >= kLanes) {
      store(dst + i, sum);
    } else {
      store(dst + i, sum, static_cast<int>(n));
    }
  }
}

static void convert(ConstRow src, Row dst, int64_t count) {
  with_type(src.dtype, [&](auto s) {
    with_type(dst.dtype, [&](auto d) {
      for (int64_t i = 0; i < count; i += kLanes) {
        write<typename decltype(d)::Type>(dst.data, i, read<typename decltype(s)::Type>(src.data, i, count - i),
                                          count - i);
      }
    });
  });
}

static void add(ConstRow x, ConstRow y, Row dst, int64_t count) {
  with_type(x.dtype, [&](auto a) {
    with_type(y.dtype, [&](auto b) {
      with_type(dst.dtype, [&](auto d) {
        for (int64_t i = 0; i < count; i += kLanes) {
          const Lanes sum = read<typename decltype(a)::Type>(x.data, i, count - i) +
                            read<typename decltype(b)::Type>(y.data, i, count - i);
          write<typename decltype(d)::Type>(dst.data, i, sum, count - i);
        }
      });
    });
  });
}

template <typename X, typename W, typename D>
LOCKSTEP_LANES_INLINE void rms_norm_row(ConstRow x, ConstRow w, Row dst, int64_t count, double epsilon) {
  Lanes squares = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes value = read<X>(x.data, i, count - i);
    squares = fma(value, value, squares);
  }
  const float mean = sum_of(squares) / static_cast<float>(count);
  const Lanes factor = splat(1.0f / __builtin_sqrtf(mean + static_cast<float>(epsilon)));
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes inner = rounded_to<D>(read<X>(x.data, i, count - i) * factor);
    write<D>(dst.data, i, read<W>(w.data, i, count - i) * inner, count - i);
  }
}

static void rms_norm(ConstRow x, ConstRow w, Row dst, int64_t count, double epsilon) {
  with_type(x.dtype, [&](auto a) {
    with_type(w.dtype, [&](auto b) {
      with_type(dst.dtype, [&](auto d) {
        rms_norm_row<typename decltype(a)::Type, typename decltype(b)::Type, typename decltype(d)::Type>(
            x, w, dst, count, epsilon);
      });
    });
  });
}

static void gated_silu(ConstRow gate, ConstRow up, Row dst, int64_t count) {
  with_type(gate.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    with_type(dst.dtype, [&](auto d) {
      for (int64_t i = 0; i < count; i += kLanes) {
        const Lanes x = read<T>(gate.data, i, count - i);
        const Lanes silu = x / (splat(1.0f) + exp(zero() - x));
        write<typename decltype(d)::Type>(dst.data, i, silu * read<T>(up.data, i, count - i), count - i);
      }
    });
  });
}

static void rope_head(ConstRow x, const float* cosines, const float* sines, Row dst, int64_t rotated,
                      int64_t head_dim) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    const int64_t half = rotated / 2;
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t n = half - i;
      const Lanes a = read<T>(x.data, i, n), b = read<T>(x.data, half + i, n);
      const Lanes c = n >= kLanes ? load(cosines + i) : load(cosines + i, static_cast<int>(n));
      const Lanes s = n >= kLanes ? load(sines + i) : load(sines + i, static_cast<int>(n));
      write<T>(dst.data, i, a * c - b * s, n);
      write<T>(dst.data, half + i, b * c + a * s, n);
    }
    for (int64_t i = rotated; i < head_dim; i += kLanes) {
      write<T>(dst.data, i, read<T>(x.data, i, head_dim - i), head_dim - i);
    }
  });
}

/// What leaves a linear operation: sums plus bias, rounded once.
static void finish_tile(const TileResult& tile) {
  with_type(tile.dst_type, [&](auto d) {
    using D = typename decltype(d)::Type;
    for (int row = 0; row < tile.rows; ++row) {
      for (int64_t i = 0; i < tile.columns; i += kLanes) {
        const int64_t n = tile.columns - i;
        Lanes value = load(tile.sums + row * kPanel + i);
        if (tile.bias != nullptr) {
          with_type(tile.bias_type, [&](auto b) { value = value + read<typename decltype(b)::Type>(tile.bias, i, n); });
        }
        write<D>(tile.dst + row * tile.dst_stride, i, value, n);
      }
    }
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
