// Sixteen words of 32 bits, the integer counterpart of Lanes. Included by the kernel files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/core/weight_format.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

#if defined(__AVX2__) && !defined(__AVX512F__)

typedef uint32_t HalfWords __attribute__((vector_size(32)));
typedef int32_t HalfIntegers __attribute__((vector_size(32)));
struct Words {
  HalfWords lo, hi;
};
template <typename Function>
LOCKSTEP_LANES_INLINE Words each_half(Words a, Function function) {
  return {function(a.lo), function(a.hi)};
}
LOCKSTEP_LANES_INLINE Words splat_word(uint32_t x) { return {HalfWords{} + x, HalfWords{} + x}; }
LOCKSTEP_LANES_INLINE Words load_words(const std::byte* p) {
  Words a;
  __builtin_memcpy(&a.lo, p, sizeof a.lo);
  __builtin_memcpy(&a.hi, p + sizeof a.lo, sizeof a.hi);
  return a;
}
LOCKSTEP_LANES_INLINE void store_words(std::byte* p, Words a) {
  __builtin_memcpy(p, &a.lo, sizeof a.lo);
  __builtin_memcpy(p + sizeof a.lo, &a.hi, sizeof a.hi);
}
LOCKSTEP_LANES_INLINE Words operator+(Words a, Words b) { return {a.lo + b.lo, a.hi + b.hi}; }
LOCKSTEP_LANES_INLINE Words operator-(Words a, Words b) { return {a.lo - b.lo, a.hi - b.hi}; }
LOCKSTEP_LANES_INLINE Words operator|(Words a, Words b) { return {a.lo | b.lo, a.hi | b.hi}; }
LOCKSTEP_LANES_INLINE Words operator&(Words a, uint32_t b) { return {a.lo & b, a.hi & b}; }
LOCKSTEP_LANES_INLINE Words operator>>(Words a, int bits) { return {a.lo >> bits, a.hi >> bits}; }
LOCKSTEP_LANES_INLINE Words operator<<(Words a, int bits) { return {a.lo << bits, a.hi << bits}; }
LOCKSTEP_LANES_INLINE __m256 to_floats(HalfWords a) { return _mm256_cvtepi32_ps(reinterpret_cast<__m256i>(a)); }
/// The numbers of signed words.
LOCKSTEP_LANES_INLINE Lanes to_floats(Words a) { return {to_floats(a.lo), to_floats(a.hi)}; }
LOCKSTEP_LANES_INLINE Lanes as_floats(Words a) {
  return {reinterpret_cast<__m256>(a.lo), reinterpret_cast<__m256>(a.hi)};
}
LOCKSTEP_LANES_INLINE Words as_words(Lanes a) {
  return {reinterpret_cast<HalfWords>(a.lo), reinterpret_cast<HalfWords>(a.hi)};
}
/// All ones where a < b, as signed numbers.
LOCKSTEP_LANES_INLINE HalfWords is_less(HalfWords a, uint32_t b) {
  return reinterpret_cast<HalfWords>(reinterpret_cast<HalfIntegers>(a) < static_cast<int32_t>(b));
}
/// `x` in the lanes in which a < b, else `y`.
LOCKSTEP_LANES_INLINE Words where_less(Words a, uint32_t b, Words x, Words y) {
  const HalfWords lo = is_less(a.lo, b), hi = is_less(a.hi, b);
  return {(x.lo & lo) | (y.lo & ~lo), (x.hi & hi) | (y.hi & ~hi)};
}

#else

typedef uint32_t WordVector __attribute__((vector_size(64)));
typedef int32_t IntegerVector __attribute__((vector_size(64)));
typedef float FloatVector __attribute__((vector_size(64)));
struct Words {
  WordVector v;
};
LOCKSTEP_LANES_INLINE Words splat_word(uint32_t x) { return {WordVector{} + x}; }
LOCKSTEP_LANES_INLINE Words load_words(const std::byte* p) {
  Words a;
  __builtin_memcpy(&a.v, p, sizeof a.v);
  return a;
}
LOCKSTEP_LANES_INLINE void store_words(std::byte* p, Words a) { __builtin_memcpy(p, &a.v, sizeof a.v); }
LOCKSTEP_LANES_INLINE Words operator+(Words a, Words b) { return {a.v + b.v}; }
LOCKSTEP_LANES_INLINE Words operator-(Words a, Words b) { return {a.v - b.v}; }
LOCKSTEP_LANES_INLINE Words operator|(Words a, Words b) { return {a.v | b.v}; }
LOCKSTEP_LANES_INLINE Words operator&(Words a, uint32_t b) { return {a.v & b}; }
LOCKSTEP_LANES_INLINE Words operator>>(Words a, int bits) { return {a.v >> bits}; }
LOCKSTEP_LANES_INLINE Words operator<<(Words a, int bits) { return {a.v << bits}; }
#if defined(__AVX512F__)
LOCKSTEP_LANES_INLINE Lanes to_floats(Words a) { return {_mm512_cvtepi32_ps(reinterpret_cast<__m512i>(a.v))}; }
LOCKSTEP_LANES_INLINE Lanes as_floats(Words a) { return {reinterpret_cast<__m512>(a.v)}; }
LOCKSTEP_LANES_INLINE Words as_words(Lanes a) { return {reinterpret_cast<WordVector>(a.v)}; }
LOCKSTEP_LANES_INLINE Words where_less(Words a, uint32_t b, Words x, Words y) {
  const __mmask16 less =
      _mm512_cmplt_epi32_mask(reinterpret_cast<__m512i>(a.v), _mm512_set1_epi32(static_cast<int32_t>(b)));
  return {reinterpret_cast<WordVector>(
      _mm512_mask_blend_epi32(less, reinterpret_cast<__m512i>(y.v), reinterpret_cast<__m512i>(x.v)))};
}
#else
LOCKSTEP_LANES_INLINE Lanes to_floats(Words a) {
  return {__builtin_convertvector(reinterpret_cast<IntegerVector>(a.v), Lanes::Vector)};
}
LOCKSTEP_LANES_INLINE Lanes as_floats(Words a) { return {reinterpret_cast<Lanes::Vector>(a.v)}; }
LOCKSTEP_LANES_INLINE Words as_words(Lanes a) { return {reinterpret_cast<WordVector>(a.v)}; }
LOCKSTEP_LANES_INLINE Words where_less(Words a, uint32_t b, Words x, Words y) {
  const WordVector less = reinterpret_cast<WordVector>(reinterpret_cast<IntegerVector>(a.v) < static_cast<int32_t>(b));
  return {(x.v & less) | (y.v & ~less)};
}
#endif

#endif

/// Sixteen bytes, or numbers of 16 bits, as words.
LOCKSTEP_LANES_INLINE Words widen_bytes(const std::byte* p) {
#if defined(__AVX512F__)
  return {reinterpret_cast<WordVector>(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
#elif defined(__AVX2__)
  const auto eight = [](const std::byte* q) {
    return reinterpret_cast<HalfWords>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(q))));
  };
  return {eight(p), eight(p + 8)};
#else
  Words a;
  for (int i = 0; i < kLanes; ++i) a.v[i] = static_cast<uint8_t>(p[i]);
  return a;
#endif
}
LOCKSTEP_LANES_INLINE Words widen_halves(const std::byte* p) {
  // The bits of a bfloat16 are the upper half of a float32.
  return as_words(load(reinterpret_cast<const BFloat16*>(p))) >> 16;
}

/// The float of a byte b of E8M0: 2^(b − 127), or NaN for 255.
LOCKSTEP_LANES_INLINE Lanes power_of_two(Words b) {
  const Words normal = where_less(b, 255, b << 23, splat_word(0x7fc00000u));
  return as_floats(where_less(b, 1, splat_word(0x00400000u), normal));
}

/// An offset of groups as a value, for template selection.
template <GroupOffset kValue>
struct OffsetTag {
  static constexpr GroupOffset kOffset = kValue;
};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
