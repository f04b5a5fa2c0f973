// The dot products of a tile: up to 6 rows times 4 strips, with one accumulator per element over the steps in order.
// Included by the isa_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/prefetch.h"
#include "runtime/backends/cpu/kernels/row_sums.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// Weights of type T, one column of x per step.
template <typename T>
struct Scalar {
  static constexpr bool kIsTiled = false;
  using X = float;
  using Vector = Lanes;
  static constexpr int kStepBytes = sizeof(T) * kLanes;  // of one strip
  LOCKSTEP_LANES_INLINE Lanes weights(const std::byte* p) { return load(reinterpret_cast<const T*>(p)); }
  LOCKSTEP_LANES_INLINE Lanes broadcast(const std::byte* x) { return splat(*reinterpret_cast<const float*>(x)); }
  LOCKSTEP_LANES_INLINE Lanes accumulate(Lanes sum, Lanes w, Lanes x) { return fma(w, x, sum); }
};

#if defined(__AVX512BF16__)
/// Pairs of bfloat16, two columns of x per step.
struct Pairs {
  static constexpr bool kIsTiled = false;
  using X = uint32_t;
  using Vector = __m512i;
  static constexpr int kStepBytes = 64;
  LOCKSTEP_LANES_INLINE __m512i weights(const std::byte* p) { return _mm512_loadu_si512(p); }
  LOCKSTEP_LANES_INLINE __m512i broadcast(const std::byte* x) {
    int32_t pair;
    __builtin_memcpy(&pair, x, sizeof pair);  // rows of odd width start between pairs
    return _mm512_set1_epi32(pair);
  }
  LOCKSTEP_LANES_INLINE Lanes accumulate(Lanes sum, __m512i w, __m512i x) {
    return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x))};
  }
};
#endif

/// Runs the accumulators over `steps` steps, starting at `w` and `x`.
template <typename Kind, int R, int V>
LOCKSTEP_LANES_INLINE void add_steps(const Product& p, const std::byte* w, const std::byte* x, int64_t steps,
                                     Lanes (&sums)[R][V]) {
  if constexpr (Kind::kIsTiled) return Kind::template add_steps<R, V>(p, w, x, steps, sums);
  const int64_t x_stride = p.x_stride;
  const int64_t weight_stride = p.weight_stride;
  const StreamPrefetch ahead = p.stream_prefetch;
  for (int64_t step = 0; step < steps; ++step) {
    typename Kind::Vector weights[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) weights[v] = Kind::weights(w + v * Kind::kStepBytes);
    if (R <= 2 && ahead.far != 0) prefetch_stream<V * Kind::kStepBytes>(w, ahead);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const typename Kind::Vector broadcast = Kind::broadcast(x + r * x_stride);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = Kind::accumulate(sums[r][v], weights[v], broadcast);
    }
    w += weight_stride;
    x += sizeof(typename Kind::X);
  }
}

/// Stores complete sums of the strips from `first` on as rows of a tensor.
template <int R, int V>
LOCKSTEP_LANES_INLINE void round_strips(const Product& p, int first, const Lanes (&sums)[R][V]) {
  const bool is_narrow = p.dst_type == DType::kBFloat16;
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    std::byte* row = p.dst + r * p.dst_stride;
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) round_to_row(row, (first + v) * kLanes, is_narrow, sums[r][v]);
  }
}

/// Joins the sums of the strips from `first` on with those to the left, and stores them.
template <int R, int V>
LOCKSTEP_LANES_INLINE void join_and_store(const Product& p, int first, Lanes (&sums)[R][V]) {
  const int64_t stride = p.sums_stride;
  float* dst = (p.left != nullptr ? p.left : p.sums) + first * kLanes;
  for (int joins = p.left != nullptr ? p.further : -1; joins >= 0; --joins) {
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = load(dst + r * stride + v * kLanes) + sums[r][v];
    }
    if (joins > 0) dst -= kTileFloats;
  }
  if (p.dst != nullptr) return round_strips<R, V>(p, first, sums);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(dst + r * stride + v * kLanes, sums[r][v]);
  }
}

template <typename Kind, int R, int V>
static void product_tile(const Product& p) {
  const bool opens = p.opens;
  Lanes sums[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[r][v] = opens ? zero() : load(p.sums + r * p.sums_stride + v * kLanes);
  }
  add_steps<Kind, R, V>(p, p.weights, p.x, p.steps, sums);
  if (p.routes == nullptr) return join_and_store<R, V>(p, 0, sums);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    float* to = p.left + p.places[r] * p.sums_stride;
    const Lanes route = splat(p.routes[r]);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(to + v * kLanes, fma(route, sums[r][v], load(to + v * kLanes)));
  }
}

template <typename Kind, int R>
static void product_rows(const Product& p) {
  switch (p.strips) {
    case 1: return product_tile<Kind, R, 1>(p);
    case 2: return product_tile<Kind, R, 2>(p);
    case 3: return product_tile<Kind, R, 3>(p);
    default: return product_tile<Kind, R, 4>(p);
  }
}

/// `count` strips of `p` from `first` on.
template <typename Kind>
static Product strips_of(const Product& p, int first, int count) {
  Product part = p;
  part.weights += first * Kind::kStepBytes;
  part.sums += first * kLanes;
  if (part.left != nullptr) part.left += first * kLanes;
  if (part.dst != nullptr) part.dst += first * kLanes * (part.dst_type == DType::kBFloat16 ? 2 : 4);
  part.strips = count;
  return part;
}

#if defined(__AVX512F__)

constexpr bool kJoinsLeaves = true;

/// Two leaves of `steps` and `next_steps` steps in separate accumulators, so that the first need not be stored.
template <typename Kind, int R, int V>
static void pair_of_leaves(const Product& p, int first) {
  Lanes sums[R][V], next[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sums[r][v] = next[r][v] = zero();
  }
  const std::byte* w = p.weights + first * Kind::kStepBytes;
  add_steps<Kind, R, V>(p, w, p.x, p.steps, sums);
  w += p.steps * p.weight_stride;
  add_steps<Kind, R, V>(p, w, p.x + p.steps * static_cast<int64_t>(sizeof(typename Kind::X)), p.next_steps, next);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sums[r][v] = sums[r][v] + next[r][v];
  }
  join_and_store<R, V>(p, first, sums);
}

template <typename Kind, int R>
static void pair_of_leaves(const Product& p) {
  int first = 0;
  for (; first + 2 <= p.strips; first += 2) pair_of_leaves<Kind, R, 2>(p, first);
  if (first < p.strips) pair_of_leaves<Kind, R, 1>(p, first);
}

template <typename Kind>
static void product_of_two(const Product& p) {
  switch (p.rows) {
    case 1: return pair_of_leaves<Kind, 1>(p);
    case 2: return pair_of_leaves<Kind, 2>(p);
    case 3: return pair_of_leaves<Kind, 3>(p);
    case 4: return pair_of_leaves<Kind, 4>(p);
    case 5: return pair_of_leaves<Kind, 5>(p);
    default: return pair_of_leaves<Kind, 6>(p);
  }
}

template <typename Kind>
static void product(const Product& p) {
  if (p.next_steps > 0) return product_of_two<Kind>(p);
  switch (p.rows) {
    case 1: return product_rows<Kind, 1>(p);
    case 2: return product_rows<Kind, 2>(p);
    case 3: return product_rows<Kind, 3>(p);
    case 4: return product_rows<Kind, 4>(p);
    case 5: return product_rows<Kind, 5>(p);
    default: return product_rows<Kind, 6>(p);
  }
}

#else

constexpr bool kJoinsLeaves = false;

/// With 16 half-width registers, one row takes all strips, and several rows take one strip at a time.
template <typename Kind>
static void product(const Product& p) {
  if (p.rows == 1) return product_rows<Kind, 1>(p);
  for (int strip = 0; strip < p.strips; ++strip) {
    const Product part = strips_of<Kind>(p, strip, 1);
    switch (p.rows) {
      case 2: product_tile<Kind, 2, 1>(part); break;
      case 3: product_tile<Kind, 3, 1>(part); break;
      case 4: product_tile<Kind, 4, 1>(part); break;
      case 5: product_tile<Kind, 5, 1>(part); break;
      default: product_tile<Kind, 6, 1>(part); break;
    }
  }
}

#endif

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
