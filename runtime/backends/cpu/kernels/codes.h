// Lines of codes in steps, for each kind of dot product. Included by the kernel files after lanes.h.
//
//   32 bits of a row    codes of 4 or 8 columns (bit_of_code)  ──►  steps: float32 | two bfloat16 | four bytes
//
// A `Code` has `kSteps` steps a line; `steps` returns them, of one strip.
#pragma once

#include "runtime/backends/cpu/kernels/coded.h"
#include "runtime/backends/cpu/kernels/words.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// The magnitude of a small float, in the lowest bits of each word, without sign: `kMantissa` bits of mantissa below
/// those of the exponent. Exact, also where it is denormal.
template <int kMantissa, int kBias>
LOCKSTEP_LANES_INLINE Words small_float(Words magnitude) {
  const Words normal = (magnitude << (23 - kMantissa)) + splat_word(static_cast<uint32_t>(127 - kBias) << 23);
  const Words least = splat_word(static_cast<uint32_t>(128 - kBias) << 23);  // the smallest normal number
  const Lanes twice = as_floats(normal) + as_floats(normal);
  return where_less(magnitude, 1u << kMantissa, as_words(twice - as_floats(least)), normal);
}

/// The value of the codes in the lowest bits of each word; other bits may be set.
template <CodeKind kKind, int kBits>
LOCKSTEP_LANES_INLINE Lanes value_of(Words code, Words minus_centre) {
  if constexpr (kKind == CodeKind::kE2M1) {
    return as_floats(small_float<1, 1>(code & 7u) | ((code & 8u) << 28));
  } else if constexpr (kKind == CodeKind::kE4M3) {
    return as_floats(small_float<3, 7>(code & 0x7fu) | ((code & 0x80u) << 24));
  } else {
    return to_floats((code & ((1u << kBits) - 1)) + minus_centre);
  }
}

/// Values of all codes of 4 bits.
template <CodeKind kKind>
LOCKSTEP_LANES_INLINE Lanes table_of_values(Words minus_centre) {
  std::byte codes[kLanes];
  for (int i = 0; i < kLanes; ++i) codes[i] = static_cast<std::byte>(i);
  return value_of<kKind, 4>(widen_bytes(codes), minus_centre);
}

/// Float32, one column a step.
template <CodeKind kKind, int kBits>
class FloatCode {
 public:
  static constexpr int kSteps = 32 / kBits;

  [[gnu::always_inline]] explicit FloatCode(const WeightFormat& format)
      : minus_centre_(splat_word(static_cast<uint32_t>(-centre_of_floats(format)))) {
#if defined(__AVX512F__)
    if constexpr (kBits == 4) table_ = table_of_values<kKind>(minus_centre_);
#endif
  }
  [[gnu::always_inline]] void steps(const std::byte* line, Words (&to)[kSteps]) const {
    const Words words = load_words(line);
#pragma GCC unroll 8
    for (int i = 0; i < kSteps; ++i) {
#if defined(__AVX512F__)
      if constexpr (kBits == 4) {
        to[i] = as_words({_mm512_permutexvar_ps(reinterpret_cast<__m512i>((words >> (4 * i)).v), table_.v)});
        continue;
      }
#endif
      to[i] = as_words(value_of<kKind, kBits>(words >> (kBits * i), minus_centre_));
    }
  }

 private:
  Words minus_centre_;
  [[maybe_unused]] Lanes table_;
};

#if defined(__AVX512BF16__)

/// Pairs of bfloat16, two columns a step. All values are exact.
template <CodeKind kKind, int kBits>
class PairCode {
 public:
  static constexpr int kSteps = 16 / kBits;

  [[gnu::always_inline]] explicit PairCode(const WeightFormat& format)
      : minus_centre_(splat_word(static_cast<uint32_t>(-centre_of_floats(format)))) {
    if constexpr (kBits == 4) {
      // The 16 values twice, because an index has 5 bits, the last of them of another code.
      const __m512i values = reinterpret_cast<__m512i>(as_words(table_of_values<kKind>(minus_centre_)).v);
      const __m256i narrow = _mm512_cvtepi32_epi16(_mm512_srli_epi32(values, 16));
      table_ = _mm512_broadcast_i64x4(narrow);
    }
  }
  [[gnu::always_inline]] void steps(const std::byte* line, Words (&to)[kSteps]) const {
    const Words words = load_words(line);
#pragma GCC unroll 4
    for (int i = 0; i < kSteps; ++i) {
      if constexpr (kBits == 4) {
        const __m512i codes = reinterpret_cast<__m512i>(words.v);
        to[i] = {reinterpret_cast<WordVector>(_mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4 * i), table_))};
      } else {
        const Lanes first = value_of<kKind, kBits>(words >> (8 * i), minus_centre_);
        const Lanes second = value_of<kKind, kBits>(words >> (8 * i + 16), minus_centre_);
        to[i] = as_words(first) >> 16 | as_words(second);
      }
    }
  }

 private:
  Words minus_centre_;
  __m512i table_;
};

#endif

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
