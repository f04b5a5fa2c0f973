// Dot products of float32 with codes e4m3, for product_coded.h. Included by the floats_*.cpp files.
#pragma once

#define LOCKSTEP_CPU_DOTS

#include "runtime/backends/cpu/kernels/coded.h"
#include "runtime/backends/cpu/kernels/words.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// The values of codes e4m3 in the lowest 8 bits of each word. Exact, also where they are denormal.
LOCKSTEP_LANES_INLINE Words value_of_e4m3(Words code) {
  constexpr int kMantissa = 3, kBias = 7;
  const Words magnitude = code & 0x7fu;
  const Words normal = (magnitude << (23 - kMantissa)) + splat_word(uint32_t{127 - kBias} << 23);
  // Without an exponent this is half the number plus half the smallest normal number.
  const Lanes twice = as_floats(normal) + as_floats(normal);
  const Words denormal = as_words(twice - as_floats(splat_word(uint32_t{128 - kBias} << 23)));
  return where_less(magnitude, 1u << kMantissa, denormal, normal) | ((code & 0x80u) << 24);
}

/// A line of codes is four steps of one column.
struct FloatCode {
  static constexpr int kSteps = 4;

  [[gnu::always_inline]] void steps(const std::byte* line, Words (&to)[kSteps]) const {
    const Words words = load_words(line);
#pragma GCC unroll 4
    for (int i = 0; i < kSteps; ++i) to[i] = value_of_e4m3(words >> (8 * i));
  }
};

/// The arithmetic of product_coded.h.
struct Dots {
  using Sum = Lanes;
  using Step = Lanes;
  using X = Lanes;
  LOCKSTEP_LANES_INLINE Step step_of(Words a) { return as_floats(a); }
  LOCKSTEP_LANES_INLINE X broadcast(const std::byte* x) { return splat(*reinterpret_cast<const float*>(x)); }
  LOCKSTEP_LANES_INLINE Sum add(Sum sum, Step w, X x) { return fma(w, x, sum); }

  /// What all groups of a product have in common.
  struct Rule {
    [[gnu::always_inline]] Rule(const WeightFormat&, DotKind) {}
  };
  LOCKSTEP_LANES_INLINE Sum open(const Rule&, const ArrangedRows&, int, int64_t) { return zero(); }
  LOCKSTEP_LANES_INLINE Lanes scale_of(const Rule&, Lanes scale) { return scale; }
  /// Zeros as `end` reads them; these codes have none.
  LOCKSTEP_LANES_INLINE Words zeros_of(const WeightFormat&, DotKind, Words zeros) { return zeros; }
  /// Adds a group's sum to y.
  template <GroupOffset kOffset, int D>
  LOCKSTEP_LANES_INLINE Lanes end(const ArrangedRows&, int, int64_t, const Sum* sum, Lanes scale, Words, Lanes y) {
    return fma(*sum, scale, y);
  }

  template <typename Work>
  LOCKSTEP_LANES_INLINE void with_code(const WeightFormat&, Work work) {
    work(FloatCode{});
  }
  template <typename Work>
  LOCKSTEP_LANES_INLINE void with_offset(GroupOffset, Work work) {
    work(OffsetTag<GroupOffset::kNone>{});
  }
  static constexpr bool kHasDigits = false;
  static constexpr Int8Group (*quantise)(const float*, int64_t, int8_t*) = nullptr;
  static constexpr float (*magnitude)(const float*, int64_t) = nullptr;
  static constexpr DigitGroup (*to_digits)(const float*, int64_t, float, int8_t*, int64_t) = nullptr;
};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
