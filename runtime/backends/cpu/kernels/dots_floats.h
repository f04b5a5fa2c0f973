// Dot products of float32, or of pairs of bfloat16, for product_coded.h. Included by the floats_*.cpp and pairs_*.cpp
// files; those define LOCKSTEP_CPU_PAIRS.
#pragma once

#define LOCKSTEP_CPU_DOTS

#include "runtime/backends/cpu/kernels/codes.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// Σ values, lane by lane, then over the lanes.
static float sum_of_values(const float* values, int64_t count) {
  Lanes sum = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    sum = sum + (count - i >= kLanes ? load(values + i) : load(values + i, static_cast<int>(count - i)));
  }
  return sum_of(sum);
}

/// The arithmetic of product_coded.h.
struct Dots {
  using Sum = Lanes;
#if defined(LOCKSTEP_CPU_PAIRS)
  static constexpr DotKind kKind = DotKind::kPairs;
  template <CodeKind kKind, int kBits>
  using Code = PairCode<kKind, kBits>;
  using Step = __m512i;
  using X = __m512i;
  LOCKSTEP_LANES_INLINE Step step_of(Words a) { return reinterpret_cast<__m512i>(a.v); }
  LOCKSTEP_LANES_INLINE X broadcast(const std::byte* x) {
    int32_t pair;
    __builtin_memcpy(&pair, x, sizeof pair);
    return _mm512_set1_epi32(pair);
  }
  LOCKSTEP_LANES_INLINE Sum add(Sum sum, Step w, X x) {
    return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x))};
  }
#else
  static constexpr DotKind kKind = DotKind::kFloats;
  template <CodeKind kKind, int kBits>
  using Code = FloatCode<kKind, kBits>;
  using Step = Lanes;
  using X = Lanes;
  LOCKSTEP_LANES_INLINE Step step_of(Words a) { return as_floats(a); }
  LOCKSTEP_LANES_INLINE X broadcast(const std::byte* x) { return splat(*reinterpret_cast<const float*>(x)); }
  LOCKSTEP_LANES_INLINE Sum add(Sum sum, Step w, X x) { return fma(w, x, sum); }
#endif

  static constexpr Int8Group (*quantise)(const float*, int64_t, int8_t*) = nullptr;
  static constexpr float (*sum)(const float*, int64_t) = sum_of_values;

  /// What all groups of a product have in common.
  struct Rule {
    [[gnu::always_inline]] explicit Rule(const WeightFormat&) {}
  };
  LOCKSTEP_LANES_INLINE Sum open(const Rule&, const ArrangedRows&, int, int64_t) { return zero(); }
  /// Zeros as `end` reads them.
  LOCKSTEP_LANES_INLINE Words zeros_of(const WeightFormat& format, Words zeros) {
    return as_words(to_floats(splat_word(static_cast<uint32_t>(centre_of_floats(format))) - zeros));
  }
  LOCKSTEP_LANES_INLINE Lanes scale_of(const Rule&, Lanes scale) { return scale; }
  /// Adds a group's sum to y.
  template <GroupOffset kOffset>
  LOCKSTEP_LANES_INLINE Lanes end(const ArrangedRows& x, int row, int64_t group, Sum sum, Lanes scale, Words offset,
                                  Lanes y) {
    if constexpr (kOffset == GroupOffset::kNone) return fma(sum, scale, y);
    const Lanes of_x = splat(reinterpret_cast<const float*>(x.sums + row * x.stride)[group]);
    if constexpr (kOffset == GroupOffset::kZeros) return fma(fma(of_x, as_floats(offset), sum), scale, y);
    return fma(of_x, as_floats(offset), fma(sum, scale, y));
  }
};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
