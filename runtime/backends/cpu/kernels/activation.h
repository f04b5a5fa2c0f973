// Activations (plain, gated, and after an expert's products) and the routing of tokens to experts. Included by the
// isa_*.cpp files after lanes.h.
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
    const Lanes bias = bias_at(tile.bias, tile.bias_type, i, tile.columns - i);
    for (int row = 0; row < tile.rows; ++row) {
      float* total = tile.totals + tile.places[row] * kPanel + i;
      store(total, fma(splat(tile.routes[row]), load(tile.sums + row * kPanel + i) + bias, load(total)));
    }
  }
}

/// Σ e^(logit − most), without logits that are no numbers.
static float sum_of_exponentials(const float* logits, int64_t count, float most) {
  Lanes sum = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    Lanes weight = exp(read<float>(reinterpret_cast<const std::byte*>(logits), i, count - i) - splat(most));
    if (count - i < kLanes) weight = first_of(weight, static_cast<int>(count - i), zero());
    sum = sum + larger(weight, zero());
  }
  return sum_of(sum);
}

/// Walks numbers in the order "higher first, then the lower index". NaN has no place in it.
struct Descent {
  float value = __builtin_inff();
  int64_t index = -1;  // of the last number taken

  bool has_taken(float x, int64_t i) const { return x > value || (x == value && i <= index); }
  /// Takes the next of count numbers; false: there is none.
  bool take(int64_t count, const auto& number) {
    int64_t best = -1;
    float highest = 0.0f;
    for (int64_t i = 0; i < count; ++i) {
      const float x = number(i);
      const bool is_left = x < value || (x == value && i > index);
      if (is_left && (best < 0 || x > highest)) highest = x, best = i;
    }
    if (best < 0) return false;
    value = highest;
    index = best;
    return true;
  }
};

/// dst = NaN for the experts of groups that are not kept; `choice(e)` is what experts are chosen by.
static void drop_groups(float* dst, int64_t count, const RouteRule& rule, const auto& choice) {
  const int64_t size = count / rule.groups;
  const auto score = [&](int64_t group) {
    float best = -__builtin_inff(), second = best;
    for (int64_t i = group * size; i < (group + 1) * size; ++i) {
      const float x = choice(i);
      if (x > best) {
        second = best;
        best = x;
      } else if (x > second) {
        second = x;
      }
    }
    return rule.by_best_two ? best + second : best;
  };
  Descent kept;
  for (int64_t i = 0; i < rule.kept_groups; ++i) kept.take(rule.groups, score);
  for (int64_t group = 0; group < rule.groups; ++group) {
    if (kept.has_taken(score(group), group)) continue;
    for (int64_t i = group * size; i < (group + 1) * size; ++i) dst[i] = __builtin_nanf("");
  }
}

static void write_scores(const float* logits, float* dst, int64_t count, bool is_sigmoid) {
  const std::byte* from = reinterpret_cast<const std::byte*>(logits);
  float most = -__builtin_inff();
  for (int64_t i = 0; i < count; ++i) most = logits[i] > most ? logits[i] : most;
  const Lanes total = splat(is_sigmoid ? 1.0f : sum_of_exponentials(logits, count, most));
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes x = read<float>(from, i, count - i);
    const Lanes score = is_sigmoid ? Sigmoid::of(x) : exp(x - splat(most)) / total;
    write<float>(reinterpret_cast<std::byte*>(dst), i, score, count - i);
  }
}

/// Routes by scores of all experts.
static void route_by_scores(const float* logits, float* dst, int64_t count, const RouteRule& rule) {
  write_scores(logits, dst, count, rule.is_sigmoid);
  const bool is_by_score = rule.bias != nullptr || rule.groups > 1;
  const auto choice = [&](int64_t i) {
    if (!is_by_score) return logits[i];
    return rule.bias != nullptr ? dst[i] + rule.bias[i] : dst[i];
  };
  if (rule.groups > 1) drop_groups(dst, count, rule, choice);
  Descent chosen;
  int64_t taken = 0;
  while (taken < rule.chosen && chosen.take(count, choice)) ++taken;
  float sum = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float x = choice(i);
    dst[i] = taken == 0 ? __builtin_nanf("") : chosen.has_taken(x, i) ? dst[i] : 0.0f;
    sum += dst[i];
  }
  const float divisor = sum < rule.least_sum ? rule.least_sum : sum;
  for (int64_t i = 0; i < count; ++i) {
    if (rule.is_divided) dst[i] = dst[i] / divisor;
    dst[i] = dst[i] * rule.scale;
  }
}

/// Shares of a softmax over the chosen or over all, by the logits alone.
static void route_by_logits(const float* logits, float* dst, int64_t count, const RouteRule& rule) {
  for (int64_t i = 0; i < count; ++i) dst[i] = -__builtin_inff();
  Descent chosen;
  float most = -__builtin_inff();
  for (int64_t taken = 0; taken < rule.chosen; ++taken) {
    if (!chosen.take(count, [&](int64_t i) { return logits[i]; })) break;
    dst[chosen.index] = chosen.value;
    if (taken == 0) most = chosen.value;
  }
  Lanes sum = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i;
    const std::byte* from = reinterpret_cast<const std::byte*>(dst);
    Lanes weight = exp(read<float>(from, i, n) - splat(most));
    if (n < kLanes) weight = first_of(weight, static_cast<int>(n), zero());
    sum = sum + weight;
    write<float>(reinterpret_cast<std::byte*>(dst), i, weight, n);
  }
  const Lanes total = splat(rule.is_divided ? sum_of(sum) : sum_of_exponentials(logits, count, most));
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes share = read<float>(reinterpret_cast<const std::byte*>(dst), i, count - i) / total;
    write<float>(reinterpret_cast<std::byte*>(dst), i, share * splat(rule.scale), count - i);
  }
}

static void route(const float* logits, float* dst, int64_t count, const RouteRule& rule) {
  const bool is_by_logits = !rule.is_sigmoid && rule.bias == nullptr && rule.groups == 1 && rule.least_sum == 0.0f;
  is_by_logits ? route_by_logits(logits, dst, count, rule) : route_by_scores(logits, dst, count, rule);
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
