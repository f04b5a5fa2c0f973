// Kernels over single rows: conversion, sums, norms. Included by the isa_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/elements.h"
#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/words.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// `value` after storing it as a T and loading it again.
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

static void multiply(ConstRow x, ConstRow y, Row dst, int64_t count) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    for (int64_t i = 0; i < count; i += kLanes) {
      write<T>(dst.data, i, read<T>(x.data, i, count - i) * read<T>(y.data, i, count - i), count - i);
    }
  });
}

static void scale(ConstRow x, Row dst, int64_t count, float factor) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    for (int64_t i = 0; i < count; i += kLanes) {
      write<T>(dst.data, i, read<T>(x.data, i, count - i) * splat(factor), count - i);
    }
  });
}

static void soft_cap(ConstRow x, Row dst, int64_t count, float cap) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    for (int64_t i = 0; i < count; i += kLanes) {
      write<T>(dst.data, i, splat(cap) * tanh(read<T>(x.data, i, count - i) / splat(cap)), count - i);
    }
  });
}

/// The mean, as a sum of two numbers, and the variance of a row's elements. The mean is computed in two passes: the
/// second one over the residuals removes the rounding error of the first.
struct Moments {
  float centre, shift, variance;
};

template <typename T>
static Moments moments_of(ConstRow x, int64_t count) {
  const float per_element = 1.0f / static_cast<float>(count);
  Lanes sum = zero();
  for (int64_t i = 0; i < count; i += kLanes) sum = sum + read<T>(x.data, i, count - i);
  const float centre = sum_of(sum) * per_element;
  Lanes rest = zero(), squares = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    Lanes value = read<T>(x.data, i, count - i) - splat(centre);
    if (count - i < kLanes) value = first_of(value, static_cast<int>(count - i), zero());
    rest = rest + value;
    squares = fma(value, value, squares);
  }
  const float shift = sum_of(rest) * per_element;
  const float mean_square = sum_of(squares) * per_element;
  float variance = mean_square - shift * shift;
  if (variance < 0.0f) variance = 0.0f;                         // keeps NaN
  if (mean_square == __builtin_inff()) variance = mean_square;  // overflow: avoids the NaN of ∞ − ∞
  return {centre, shift, variance};
}

template <typename T>
static float mean_square(ConstRow x, int64_t count) {
  Lanes squares = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes value = read<T>(x.data, i, count - i);
    squares = fma(value, value, squares);
  }
  return sum_of(squares) / static_cast<float>(count);
}

static void cut_off(ConstRow x, Row dst, int64_t count, float deviations) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    const Moments moments = moments_of<T>(x, count);
    const Lanes cut = splat(moments.centre + moments.shift + deviations * __builtin_sqrtf(moments.variance));
    for (int64_t i = 0; i < count; i += kLanes) {
      write<T>(dst.data, i, larger(zero(), read<T>(x.data, i, count - i) - cut), count - i);
    }
  });
}

/// Rounds to numbers e4m3: to multiples of 1/8 of the largest power of two below, which is at least 2^-6.
LOCKSTEP_LANES_INLINE Lanes round_to_e4m3(Lanes a) {
  const Lanes power = larger(as_floats(as_words(a) & 0x7f800000u), splat(0x1p-6f));
  const Lanes shift = power * splat(0x1.8p20f);  // its last bit is power / 8
  return (a + shift) - shift;
}

/// The largest magnitude of x[begin, end); NaN if one of them is NaN or infinite.
template <typename T>
static float largest_magnitude(ConstRow x, int64_t begin, int64_t end) {
  Lanes largest = zero(), nothing = zero();
  for (int64_t i = begin; i < end; i += kLanes) {
    const Lanes value = read<T>(x.data, i, end - i);
    largest = larger(largest, as_floats(as_words(value) & 0x7fffffffu));
    nothing = nothing + (value - value);
  }
  return largest_of(largest) + sum_of(nothing);
}

static void fake_quantise(ConstRow x, float* dst, int64_t count, FakeQuantisation how) {
  const float most = how.is_e4m3 ? 448.0f : 127.0f;
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    for (int64_t begin = 0, end = 0; begin < count; begin = end) {
      end = begin + how.group < count ? begin + how.group : count;
      const float largest = how.scale == nullptr ? largest_magnitude<T>(x, begin, end) : 0.0f;
      const float own = largest < 0x1p-100f ? 0.0f : largest / most;
      const float scale = how.scale == nullptr ? own : *how.scale;
      for (int64_t i = begin; i < end; i += kLanes) {
        // The second operand stands where one is NaN.
        const Lanes code = smaller(splat(most), larger(splat(-most), read<T>(x.data, i, end - i) / splat(scale)));
        const Lanes rounded = how.is_e4m3 ? round_to_e4m3(code) : round_to_integer(code);
        write<float>(reinterpret_cast<std::byte*>(dst), i, scale == 0.0f ? zero() : rounded * splat(scale), end - i);
      }
    }
  });
}

static void match_magnitude(ConstRow x, ConstRow like, Row dst, int64_t count, float least) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    const float own = mean_square<T>(x, count);
    const float target = __builtin_sqrtf(mean_square<T>(like, count));
    const Lanes factor = splat(target / __builtin_sqrtf(own < least ? least : own));
    for (int64_t i = 0; i < count; i += kLanes) {
      write<T>(dst.data, i, read<T>(x.data, i, count - i) * factor, count - i);
    }
  });
}

static void weighted_sum(const ConstRow* x, const float* factors, int64_t terms, Row dst, int64_t count) {
  with_type(dst.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    for (int64_t i = 0; i < count; i += kLanes) {
      Lanes sum = zero();
      for (int64_t term = 0; term < terms; ++term) {
        sum = fma(read<T>(x[term].data, i, count - i), splat(factors[term]), sum);
      }
      write<T>(dst.data, i, sum, count - i);
    }
  });
}

static void rms_norm(ConstRow x, ConstRow w, Row dst, int64_t count, double epsilon, NormFactor norm) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    const float mean = mean_square<T>(x, count);
    const Lanes factor = splat(1.0f / __builtin_sqrtf(mean + static_cast<float>(epsilon)));
    for (int64_t i = 0; i < count; i += kLanes) {
      const Lanes inner = read<T>(x.data, i, count - i) * factor;
      const Lanes weight = w.data != nullptr ? read<T>(w.data, i, count - i) : splat(1.0f);
      const Lanes value = norm.rounds ? weight * rounded_to<T>(inner) : (weight + splat(norm.offset)) * inner;
      write<T>(dst.data, i, value, count - i);
    }
  });
}

static void layer_norm(ConstRow x, ConstRow w, ConstRow b, Row dst, int64_t count, double epsilon, float offset) {
  with_type(x.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    const Moments moments = moments_of<T>(x, count);
    const Lanes centre = splat(moments.centre), shift = splat(moments.shift);
    const Lanes factor = splat(1.0f / __builtin_sqrtf(moments.variance + static_cast<float>(epsilon)));
    for (int64_t i = 0; i < count; i += kLanes) {
      const Lanes value = (read<T>(x.data, i, count - i) - centre - shift) * factor;
      const Lanes weight = read<T>(w.data, i, count - i) + splat(offset);
      const Lanes bias = b.data != nullptr ? read<T>(b.data, i, count - i) : zero();
      write<T>(dst.data, i, fma(value, weight, bias), count - i);
    }
  });
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
