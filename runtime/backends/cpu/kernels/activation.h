// Activations: plain, gated, and after an expert's products. Included by the isa_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/rowwise.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// x · sigmoid(x).
struct Silu {
  LOCKSTEP_LANES_INLINE Lanes of(Lanes x) { return x / (splat(1.0f) + exp(zero() - x)); }
};

struct Sigmoid {
  LOCKSTEP_LANES_INLINE Lanes of(Lanes x) { return splat(1.0f) / (splat(1.0f) + exp(zero() - x)); }
};

/// x · Φ(x) as max(x, 0) − |x| · Φ(−|x|), which is accurate also for x far below 0. Φ(−z) = erfc(z / √2) / 2 by the
/// Chebyshev fit of Press et al., Numerical Recipes §6.2, relative error below 1.2e-7.
struct Gelu {
  LOCKSTEP_LANES_INLINE Lanes of(Lanes x) {
    const Lanes size = smaller(splat(20.0f), larger(zero() - x, x));  // beyond 20, Φ(−size) is 0
    const Lanes z = size * splat(0.707106781f);
    const Lanes t = splat(1.0f) / fma(z, splat(0.5f), splat(1.0f));
    Lanes p = fma(t, splat(0.17087277f), splat(-0.82215223f));
    p = fma(p, t, splat(1.48851587f));
    p = fma(p, t, splat(-1.13520398f));
    p = fma(p, t, splat(0.27886807f));
    p = fma(p, t, splat(-0.18628806f));
    p = fma(p, t, splat(0.09678418f));
    p = fma(p, t, splat(0.37409196f));
    p = fma(p, t, splat(1.00002368f));
    p = fma(p, t, splat(-1.26551223f));
    const Lanes tail = splat(0.5f) * t * exp(p - z * z);
    return larger(zero(), x) - size * tail;
  }
};

/// x/2 · (1 + tanh(u)) with u = √(2/π) · (x + 0.044715 x³), written as x / (1 + e^−2u).
struct GeluTanh {
  LOCKSTEP_LANES_INLINE Lanes of(Lanes x) {
    const Lanes cubic = x * fma(splat(0.044715f), x * x, splat(1.0f));
    return x / (splat(1.0f) + exp(splat(-1.59576912f) * cubic));
  }
};

struct Relu {
  LOCKSTEP_LANES_INLINE Lanes of(Lanes x) { return larger(zero(), x); }
};

struct SquaredRelu {
  LOCKSTEP_LANES_INLINE Lanes of(Lanes x) {
    const Lanes part = Relu::of(x);
    return part * part;
  }
};

template <typename Kind>
LOCKSTEP_LANES_INLINE Lanes gated(TypeTag<Kind>, const Activation&, Lanes gate, Lanes up) {
  return Kind::of(gate) * up;
}

struct ClampedSwiglu {};
LOCKSTEP_LANES_INLINE Lanes gated(TypeTag<ClampedSwiglu>, const Activation& by, Lanes gate, Lanes up) {
  gate = smaller(splat(by.limit), gate);
  up = smaller(splat(by.limit), larger(splat(-by.limit), up));
  return (up + splat(1.0f)) * (gate / (splat(1.0f) + exp(splat(-by.alpha) * gate)));
}

template <typename Function>
LOCKSTEP_LANES_INLINE void with_plain(ActivationKind kind, Function function) {
  if (kind == ActivationKind::kSilu) return function(TypeTag<Silu>{});
  if (kind == ActivationKind::kSigmoid) return function(TypeTag<Sigmoid>{});
  if (kind == ActivationKind::kGelu) return function(TypeTag<Gelu>{});
  if (kind == ActivationKind::kGeluTanh) return function(TypeTag<GeluTanh>{});
  if (kind == ActivationKind::kRelu) return function(TypeTag<Relu>{});
  function(TypeTag<SquaredRelu>{});
}

template <typename Function>
LOCKSTEP_LANES_INLINE void with_gated(ActivationKind kind, Function function) {
  if (kind == ActivationKind::kClampedSwiglu) return function(TypeTag<ClampedSwiglu>{});
  with_plain(kind, function);
}

static void activate(Activation activation, ConstRow x, Row dst, int64_t count) {
  with_plain(activation.kind, [&](auto kind) {
    with_type(x.dtype, [&](auto t) {
      using T = typename decltype(t)::Type;
      for (int64_t i = 0; i < count; i += kLanes) {
        write<T>(dst.data, i, decltype(kind)::Type::of(read<T>(x.data, i, count - i)), count - i);
      }
    });
  });
}

static void gate(Activation activation, ConstRow gate, ConstRow up, Row dst, int64_t count) {
  with_gated(activation.kind, [&](auto kind) {
    with_type(gate.dtype, [&](auto t) {
      using T = typename decltype(t)::Type;
      for (int64_t i = 0; i < count; i += kLanes) {
        const Lanes x = read<T>(gate.data, i, count - i), y = read<T>(up.data, i, count - i);
        write<T>(dst.data, i, gated(kind, activation, x, y), count - i);
      }
    });
  });
}

/// Sixteen elements of a bias, or zeros.
LOCKSTEP_LANES_INLINE Lanes bias_at(const std::byte* bias, DType type, int64_t at, int64_t n) {
  Lanes value = zero();
  if (bias == nullptr) return value;
  with_type(type, [&](auto t) { value = read<typename decltype(t)::Type>(bias, at, n); });
  return value;
}

static void gate_tile(const GatedTile& tile) {
  with_gated(tile.activation.kind, [&](auto kind) {
    with_type(tile.dst_type, [&](auto t) {
      for (int64_t i = 0; i < tile.columns; i += kLanes) {
        const int64_t n = tile.columns - i;
        const Lanes gate_bias = bias_at(tile.gate_bias, tile.bias_type, i, n);
        const Lanes up_bias = bias_at(tile.up_bias, tile.bias_type, i, n);
        for (int row = 0; row < tile.rows; ++row) {
          const Lanes x = load(tile.gate + row * kPanel + i) + gate_bias;
          const Lanes y = load(tile.up + row * kPanel + i) + up_bias;
          write<typename decltype(t)::Type>(tile.dst + row * tile.dst_stride, i, gated(kind, tile.activation, x, y), n);
        }
      }
    });
  });
}

static void add_routed(const RoutedTile& tile) {
  for (int64_t i = 0; i < tile.columns; i += kLanes) {
    const Lanes bias = tile.bias != nullptr ? bias_at(tile.bias, tile.bias_type, i, tile.columns - i) : zero();
    for (int row = 0; row < tile.rows; ++row) {
      float* total = tile.totals + tile.places[row] * kPanel + i;
      store(total, fma(splat(tile.routes[row]), load(tile.sums + row * kPanel + i) + bias, load(total)));
    }
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
