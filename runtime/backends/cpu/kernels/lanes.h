// Sixteen float32 lanes, the vector type of all kernels: one AVX-512 register, two AVX2 registers, or an array.
// Included only by the isa_*.cpp files. Each is compiled with its own instruction-set flags and defines the namespace
// LOCKSTEP_CPU_ISA. All code must stay in that namespace and call no standard library function, because the linker
// would keep only one copy of it.
//
// Arithmetic is the same function of its operands in all kernels of one ISA; between ISAs only `fma` (one or two
// roundings) and the order in `sum_of` differ.
#pragma once

#ifndef LOCKSTEP_CPU_ISA
#error "include this from an isa_*.cpp file"
#endif

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "runtime/core/dtype.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

#define LOCKSTEP_LANES_INLINE [[gnu::always_inline]] static inline

constexpr int kLanes = 16;
alignas(64) static constexpr float kLaneNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

#if defined(__AVX512F__)

struct Lanes {
  __m512 v;
};

LOCKSTEP_LANES_INLINE __mmask16 first_lanes(int count) { return static_cast<__mmask16>((1u << count) - 1u); }
LOCKSTEP_LANES_INLINE Lanes splat(float x) { return {_mm512_set1_ps(x)}; }
LOCKSTEP_LANES_INLINE Lanes zero() { return {_mm512_setzero_ps()}; }
LOCKSTEP_LANES_INLINE Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
LOCKSTEP_LANES_INLINE Lanes load(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
LOCKSTEP_LANES_INLINE Lanes widen(__m256i x) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
}
LOCKSTEP_LANES_INLINE Lanes load(const BFloat16* p) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
LOCKSTEP_LANES_INLINE Lanes load(const BFloat16* p, int n) {
  return widen(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
LOCKSTEP_LANES_INLINE Lanes load(const Float16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
LOCKSTEP_LANES_INLINE Lanes load(const Float16* p, int n) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p))};
}
LOCKSTEP_LANES_INLINE void store(float* p, Lanes a) { _mm512_storeu_ps(p, a.v); }
LOCKSTEP_LANES_INLINE void store(float* p, Lanes a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }

/// Rounds to nearest even, like `to_bfloat16`: a NaN stays a quiet NaN, denormals stay.
LOCKSTEP_LANES_INLINE __m256i narrow(Lanes a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16));
}
LOCKSTEP_LANES_INLINE void store(BFloat16* p, Lanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(a));
}
LOCKSTEP_LANES_INLINE void store(BFloat16* p, Lanes a, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow(a));
}
LOCKSTEP_LANES_INLINE __m256i to_half(Lanes a) {
  return _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
LOCKSTEP_LANES_INLINE void store(Float16* p, Lanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_half(a));
}
LOCKSTEP_LANES_INLINE void store(Float16* p, Lanes a, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), to_half(a));
}

LOCKSTEP_LANES_INLINE Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
LOCKSTEP_LANES_INLINE Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
LOCKSTEP_LANES_INLINE Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
LOCKSTEP_LANES_INLINE Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
LOCKSTEP_LANES_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
/// Returns b if either is NaN.
LOCKSTEP_LANES_INLINE Lanes larger(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
LOCKSTEP_LANES_INLINE Lanes smaller(Lanes a, Lanes b) { return {_mm512_min_ps(a.v, b.v)}; }
LOCKSTEP_LANES_INLINE Lanes round_to_integer(Lanes a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// 2^a for an integer a in [-126, 127].
LOCKSTEP_LANES_INLINE Lanes power_of_two(Lanes a) {
  return {
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(127)), 23))};
}
/// The first `n` lanes of a, then those of b.
LOCKSTEP_LANES_INLINE Lanes first_of(Lanes a, int n, Lanes b) {
  return {_mm512_mask_blend_ps(first_lanes(n), b.v, a.v)};
}
/// Swaps lanes 2i and 2i + 1.
LOCKSTEP_LANES_INLINE Lanes swap_neighbours(Lanes a) { return {_mm512_permute_ps(a.v, 0xb1)}; }
LOCKSTEP_LANES_INLINE float sum_of(Lanes a) { return _mm512_reduce_add_ps(a.v); }
LOCKSTEP_LANES_INLINE float largest_of(Lanes a) { return _mm512_reduce_max_ps(a.v); }

#elif defined(__AVX2__)

struct Lanes {
  __m256 lo, hi;
};

LOCKSTEP_LANES_INLINE Lanes splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
LOCKSTEP_LANES_INLINE Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
LOCKSTEP_LANES_INLINE Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
LOCKSTEP_LANES_INLINE __m256 widen(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
LOCKSTEP_LANES_INLINE Lanes load(const BFloat16* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {widen(_mm_loadu_si128(q)), widen(_mm_loadu_si128(q + 1))};
}
LOCKSTEP_LANES_INLINE Lanes load(const Float16* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
LOCKSTEP_LANES_INLINE void store(float* p, Lanes a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
LOCKSTEP_LANES_INLINE __m256i rounded_bits(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
LOCKSTEP_LANES_INLINE void store(BFloat16* p, Lanes a) {
  const __m256i packed = _mm256_packus_epi32(rounded_bits(a.lo), rounded_bits(a.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
LOCKSTEP_LANES_INLINE void store(Float16* p, Lanes a) {
  __m128i* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
LOCKSTEP_LANES_INLINE Lanes operator+(Lanes a, Lanes b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
LOCKSTEP_LANES_INLINE Lanes operator-(Lanes a, Lanes b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
LOCKSTEP_LANES_INLINE Lanes operator*(Lanes a, Lanes b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
LOCKSTEP_LANES_INLINE Lanes operator/(Lanes a, Lanes b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
LOCKSTEP_LANES_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
LOCKSTEP_LANES_INLINE Lanes larger(Lanes a, Lanes b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
LOCKSTEP_LANES_INLINE Lanes smaller(Lanes a, Lanes b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
LOCKSTEP_LANES_INLINE Lanes round_to_integer(Lanes a) {
  return {_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
LOCKSTEP_LANES_INLINE __m256 power_of_two(__m256 a) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127)), 23));
}
LOCKSTEP_LANES_INLINE Lanes power_of_two(Lanes a) { return {power_of_two(a.lo), power_of_two(a.hi)}; }
LOCKSTEP_LANES_INLINE Lanes swap_neighbours(Lanes a) {
  return {_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)};
}
LOCKSTEP_LANES_INLINE float sum_of(Lanes a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
LOCKSTEP_LANES_INLINE float largest_of(Lanes a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#else

/// The compiler's own vectors, mapped to the machine's registers.
struct Lanes {
  typedef float Vector __attribute__((vector_size(64)));
  Vector v;
};

template <typename Function>
LOCKSTEP_LANES_INLINE Lanes each_lane(Function function) {
  Lanes a{};
  for (int i = 0; i < kLanes; ++i) a.v[i] = function(i);
  return a;
}
LOCKSTEP_LANES_INLINE Lanes splat(float x) { return {Lanes::Vector{} + x}; }
LOCKSTEP_LANES_INLINE Lanes zero() { return {Lanes::Vector{}}; }
LOCKSTEP_LANES_INLINE Lanes load(const float* p) {
  Lanes a;
  __builtin_memcpy(&a.v, p, sizeof a.v);
  return a;
}
LOCKSTEP_LANES_INLINE float widen(BFloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float value = 0;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
LOCKSTEP_LANES_INLINE Lanes load(const BFloat16* p) {
  return each_lane([p](int i) { return widen(p[i]); });
}
LOCKSTEP_LANES_INLINE Lanes load(const Float16* p) {
  return each_lane([p](int i) { return lockstep::to_float(p[i]); });
}
LOCKSTEP_LANES_INLINE void store(float* p, Lanes a) { __builtin_memcpy(p, &a.v, sizeof a.v); }
LOCKSTEP_LANES_INLINE void store(BFloat16* p, Lanes a) {
  for (int i = 0; i < kLanes; ++i) {
    uint32_t bits = 0;
    const float value = a.v[i];
    __builtin_memcpy(&bits, &value, sizeof bits);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
    p[i].bits = static_cast<uint16_t>(bits >> 16);
  }
}
LOCKSTEP_LANES_INLINE void store(Float16* p, Lanes a) {
  for (int i = 0; i < kLanes; ++i) p[i] = lockstep::to_float16(a.v[i]);
}
LOCKSTEP_LANES_INLINE Lanes operator+(Lanes a, Lanes b) { return {a.v + b.v}; }
LOCKSTEP_LANES_INLINE Lanes operator-(Lanes a, Lanes b) { return {a.v - b.v}; }
LOCKSTEP_LANES_INLINE Lanes operator*(Lanes a, Lanes b) { return {a.v * b.v}; }
LOCKSTEP_LANES_INLINE Lanes operator/(Lanes a, Lanes b) { return {a.v / b.v}; }
LOCKSTEP_LANES_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) { return {a.v * b.v + c.v}; }
LOCKSTEP_LANES_INLINE Lanes larger(Lanes a, Lanes b) { return {a.v > b.v ? a.v : b.v}; }
LOCKSTEP_LANES_INLINE Lanes smaller(Lanes a, Lanes b) { return {a.v < b.v ? a.v : b.v}; }
LOCKSTEP_LANES_INLINE Lanes round_to_integer(Lanes a) {
  return each_lane([a](int i) { return __builtin_nearbyintf(a.v[i]); });
}
LOCKSTEP_LANES_INLINE Lanes power_of_two(Lanes a) {
  return each_lane([a](int i) {
    // A NaN has no exponent to convert; any value works here, because it is multiplied by a NaN.
    const float exponent = a.v[i] == a.v[i] ? a.v[i] : 0.0f;
    const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(exponent) + 127) << 23;
    float value = 0;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  });
}
LOCKSTEP_LANES_INLINE Lanes swap_neighbours(Lanes a) {
  return each_lane([a](int i) { return a.v[i ^ 1]; });
}
LOCKSTEP_LANES_INLINE float sum_of(Lanes a) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.v[i] += a.v[i + width];
  }
  return a.v[0];
}
LOCKSTEP_LANES_INLINE float largest_of(Lanes a) {
  float most = a.v[0];
  for (int i = 1; i < kLanes; ++i) most = a.v[i] > most ? a.v[i] : most;
  return most;
}

#endif

#if !defined(__AVX512F__)

/// Without masks, tails go through a small buffer.
template <typename T>
LOCKSTEP_LANES_INLINE Lanes load(const T* p, int n) {
  T buffer[kLanes] = {};
  for (int i = 0; i < n; ++i) buffer[i] = p[i];
  return load(buffer);
}
template <typename T>
LOCKSTEP_LANES_INLINE void store(T* p, Lanes a, int n) {
  T buffer[kLanes];
  store(buffer, a);
  for (int i = 0; i < n; ++i) p[i] = buffer[i];
}
LOCKSTEP_LANES_INLINE Lanes first_of(Lanes a, int n, Lanes b) {
  float lanes[kLanes], others[kLanes];
  store(lanes, a);
  store(others, b);
  for (int i = n; i < kLanes; ++i) lanes[i] = others[i];
  return load(lanes);
}

#endif

/// e^x: within 2 units in the last place if the result is normal; 0 and infinity beyond, NaN for NaN. The polynomial is
/// the Taylor series of e^r up to r^7 for |r| <= ln(2)/2, with a remainder below 2^-26.
LOCKSTEP_LANES_INLINE Lanes exp(Lanes x) {
  // `larger` and `smaller` return their second operand for a NaN, so a NaN x is preserved.
  const Lanes bounded = smaller(splat(89.0f), larger(splat(-104.0f), x));
  const Lanes n = round_to_integer(bounded * splat(1.44269504f));
  Lanes r = fma(n, splat(-0.693359375f), bounded);
  r = fma(n, splat(2.12194440e-4f), r);
  Lanes p = fma(splat(1.0f / 5040.0f), r, splat(1.0f / 720.0f));
  p = fma(p, r, splat(1.0f / 120.0f));
  p = fma(p, r, splat(1.0f / 24.0f));
  p = fma(p, r, splat(1.0f / 6.0f));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r, splat(1.0f));
  p = fma(p, r, splat(1.0f));
  const Lanes half = round_to_integer(n * splat(0.5f));  // 2^n in two factors: n may exceed the exponent range
  return p * power_of_two(half) * power_of_two(n - half);
}

/// tanh(x) with a relative error below 3e-7; NaN for NaN. The rational approximation of Eigen's
/// generic_fast_tanh_float, in the range where the result is below 1.
LOCKSTEP_LANES_INLINE Lanes tanh(Lanes x) {
  const Lanes limit = splat(7.90531110763549805f);
  const Lanes bounded = smaller(limit, larger(zero() - limit, x));
  const Lanes square = bounded * bounded;
  Lanes p = fma(splat(-2.76076847742355e-16f), square, splat(2.00018790482477e-13f));
  p = fma(p, square, splat(-8.60467152213735e-11f));
  p = fma(p, square, splat(5.12229709037114e-08f));
  p = fma(p, square, splat(1.48572235717979e-05f));
  p = fma(p, square, splat(6.37261928875436e-04f));
  p = fma(p, square, splat(4.89352455891786e-03f));
  Lanes q = fma(splat(1.19825839466702e-06f), square, splat(1.18534705686654e-04f));
  q = fma(q, square, splat(2.26843463243900e-03f));
  q = fma(q, square, splat(4.89352518554385e-03f));
  return bounded * p / q;
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
