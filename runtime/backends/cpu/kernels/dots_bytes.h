// Dot products of 8-bit integers, for product_coded.h. Included by the bytes_*.cpp files.
//
//   a step of a strip    w[0][k … k+3] w[1][k … k+3] … w[15][k … k+3]    64 bytes, unsigned: w + centre
//   times                x[k … k+3] in every lane                        signed
//   is added to          16 integer sums, which begin at −centre · Σ x
//
// The correction for the centre is therefore one number per row and group, and weights are one stream. Instruction sets
// with only a saturating byte product multiply |w − 128| by x, with the sign of w − 128 moved to x.
#pragma once

#define LOCKSTEP_CPU_DOTS

#include "runtime/backends/cpu/kernels/coded.h"
#include "runtime/backends/cpu/kernels/words.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// Twice the values of the codes e2m1, plus 12.
alignas(16) constexpr uint8_t kHalvesOfE2M1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

#if defined(__AVX512F__)

/// Typed as the instructions' elements: with __m512i, whose elements are 64 bits, GCC 12 keeps a copy of each in
/// memory.
typedef int32_t Integers __attribute__((vector_size(64)));
LOCKSTEP_LANES_INLINE Integers splat_integer(int32_t x) { return Integers{} + x; }
LOCKSTEP_LANES_INLINE Integers integers_of(Words a) { return reinterpret_cast<Integers>(a.v); }
LOCKSTEP_LANES_INLINE Lanes to_floats(Integers a) { return {_mm512_cvtepi32_ps(reinterpret_cast<__m512i>(a))}; }
LOCKSTEP_LANES_INLINE Words halves_of_e2m1(Words codes) {
  const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kHalvesOfE2M1)));
  return {reinterpret_cast<WordVector>(_mm512_shuffle_epi8(table, reinterpret_cast<__m512i>(codes.v)))};
}
using Bytes4 = __m512i;
LOCKSTEP_LANES_INLINE Bytes4 broadcast_step(int32_t x) { return _mm512_set1_epi32(x); }

#if defined(__AVX512VNNI__)
constexpr int32_t kWeightZero = 0;  // the byte that is multiplied as 0
using Step = __m512i;
LOCKSTEP_LANES_INLINE Step step_of(Words a) { return reinterpret_cast<__m512i>(a.v); }
LOCKSTEP_LANES_INLINE Integers dot(Integers sum, Step w, Bytes4 x) {
  return reinterpret_cast<Integers>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), w, x));
}
#else
constexpr int32_t kWeightZero = 128;
struct Step {
  __m512i magnitude;
  __mmask64 is_negative;
};
LOCKSTEP_LANES_INLINE Step step_of(Words a) {
  const __m512i value = _mm512_xor_si512(reinterpret_cast<__m512i>(a.v), _mm512_set1_epi8(static_cast<char>(0x80)));
  return {_mm512_abs_epi8(value), _mm512_movepi8_mask(value)};
}
LOCKSTEP_LANES_INLINE Integers dot(Integers sum, Step w, Bytes4 x) {
  const __m512i turned = _mm512_mask_sub_epi8(x, w.is_negative, _mm512_setzero_si512(), x);
  const __m512i pairs = _mm512_maddubs_epi16(w.magnitude, turned);
  return sum + reinterpret_cast<Integers>(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif

LOCKSTEP_LANES_INLINE void store_integers(int8_t* p, Lanes a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}

#elif defined(__AVX2__)

struct Integers {
  HalfIntegers lo, hi;
};
LOCKSTEP_LANES_INLINE Integers splat_integer(int32_t x) { return {HalfIntegers{} + x, HalfIntegers{} + x}; }
LOCKSTEP_LANES_INLINE Integers integers_of(Words a) {
  return {reinterpret_cast<HalfIntegers>(a.lo), reinterpret_cast<HalfIntegers>(a.hi)};
}
LOCKSTEP_LANES_INLINE Integers operator+(Integers a, Integers b) { return {a.lo + b.lo, a.hi + b.hi}; }
LOCKSTEP_LANES_INLINE Integers operator*(Integers a, Integers b) { return {a.lo * b.lo, a.hi * b.hi}; }
LOCKSTEP_LANES_INLINE Lanes to_floats(Integers a) {
  return {_mm256_cvtepi32_ps(reinterpret_cast<__m256i>(a.lo)), _mm256_cvtepi32_ps(reinterpret_cast<__m256i>(a.hi))};
}
LOCKSTEP_LANES_INLINE Words halves_of_e2m1(Words codes) {
  const __m256i table = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(kHalvesOfE2M1)));
  return each_half(codes, [&](HalfWords half) {
    return reinterpret_cast<HalfWords>(_mm256_shuffle_epi8(table, reinterpret_cast<__m256i>(half)));
  });
}
struct Bytes4 {
  __m256i v;
};
LOCKSTEP_LANES_INLINE Bytes4 broadcast_step(int32_t x) { return {_mm256_set1_epi32(x)}; }

#if defined(__AVXVNNI__)
constexpr int32_t kWeightZero = 0;  // the byte that is multiplied as 0
struct Step {
  __m256i lo, hi;
};
LOCKSTEP_LANES_INLINE Step step_of(Words a) {
  return {reinterpret_cast<__m256i>(a.lo), reinterpret_cast<__m256i>(a.hi)};
}
LOCKSTEP_LANES_INLINE HalfIntegers dot_half(HalfIntegers sum, __m256i w, Bytes4 x) {
  return reinterpret_cast<HalfIntegers>(_mm256_dpbusd_avx_epi32(reinterpret_cast<__m256i>(sum), w, x.v));
}
LOCKSTEP_LANES_INLINE Integers dot(Integers sum, Step w, Bytes4 x) {
  return {dot_half(sum.lo, w.lo, x), dot_half(sum.hi, w.hi, x)};
}
#else
constexpr int32_t kWeightZero = 128;
struct HalfStep {
  __m256i value, magnitude;
};
struct Step {
  HalfStep lo, hi;
};
LOCKSTEP_LANES_INLINE HalfStep step_of(HalfWords a) {
  const __m256i value = _mm256_xor_si256(reinterpret_cast<__m256i>(a), _mm256_set1_epi8(static_cast<char>(0x80)));
  return {value, _mm256_abs_epi8(value)};
}
LOCKSTEP_LANES_INLINE Step step_of(Words a) { return {step_of(a.lo), step_of(a.hi)}; }
LOCKSTEP_LANES_INLINE HalfIntegers dot_half(HalfIntegers sum, HalfStep w, Bytes4 x) {
  const __m256i pairs = _mm256_maddubs_epi16(w.magnitude, _mm256_sign_epi8(x.v, w.value));
  return sum + reinterpret_cast<HalfIntegers>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
LOCKSTEP_LANES_INLINE Integers dot(Integers sum, Step w, Bytes4 x) {
  return {dot_half(sum.lo, w.lo, x), dot_half(sum.hi, w.hi, x)};
}
#endif

LOCKSTEP_LANES_INLINE void store_integers(int8_t* p, Lanes a) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi));
  const __m256i in_order = _mm256_permute4x64_epi64(words, 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(in_order), _mm256_extracti128_si256(in_order, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

#else

constexpr int32_t kWeightZero = 0;  // the byte that is multiplied as 0
struct Integers {
  IntegerVector v;
};
struct Bytes4 {
  int16_t v[4];
};
using Step = Integers;
LOCKSTEP_LANES_INLINE Integers splat_integer(int32_t x) { return {IntegerVector{} + x}; }
LOCKSTEP_LANES_INLINE Integers integers_of(Words a) { return {reinterpret_cast<IntegerVector>(a.v)}; }
LOCKSTEP_LANES_INLINE Integers operator+(Integers a, Integers b) { return {a.v + b.v}; }
LOCKSTEP_LANES_INLINE Integers operator*(Integers a, Integers b) { return {a.v * b.v}; }
LOCKSTEP_LANES_INLINE Lanes to_floats(Integers a) { return {__builtin_convertvector(a.v, Lanes::Vector)}; }
LOCKSTEP_LANES_INLINE Words halves_of_e2m1(Words codes) {
  Words halves{};
  for (int i = 0; i < kLanes; ++i) {
    for (int byte = 0; byte < 32; byte += 8) halves.v[i] |= uint32_t{kHalvesOfE2M1[codes.v[i] >> byte & 15]} << byte;
  }
  return halves;
}
LOCKSTEP_LANES_INLINE Step step_of(Words a) { return integers_of(a); }
LOCKSTEP_LANES_INLINE Bytes4 broadcast_step(int32_t x) {
  int8_t bytes[4];
  __builtin_memcpy(bytes, &x, sizeof bytes);
  return {{bytes[0], bytes[1], bytes[2], bytes[3]}};
}
/// Lane i of w holds its four columns starting at the least significant byte (little-endian).
LOCKSTEP_LANES_INLINE Integers dot(Integers sum, Step w, Bytes4 x) {
  IntegerVector total = sum.v;
  for (int k = 0; k < 4; ++k) total += ((w.v >> (8 * k)) & 0xff) * int32_t{x.v[k]};
  return {total};
}
LOCKSTEP_LANES_INLINE void store_integers(int8_t* p, Lanes a) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}

#endif

constexpr int64_t kColumnsOfStep = columns_of_step(DotKind::kBytes);

/// The largest magnitude of some values; NaN if one is no finite number.
static float largest_magnitude(const float* values, int64_t count) {
  Lanes most = zero(), poison = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes x = count - i >= kLanes ? load(values + i) : load(values + i, static_cast<int>(count - i));
    most = larger(larger(x, zero() - x), most);  // ignores NaN
    poison = poison + (x - x);                   // NaN for a NaN and for an infinity
  }
  return largest_of(most) + sum_of(poison);
}

/// Sixteen integers, or the `n` that are left and zeros up to `padded`.
LOCKSTEP_LANES_INLINE void store_some(int8_t* to, Lanes integers, int64_t n, int64_t padded) {
  if (n >= kLanes) return store_integers(to, integers);
  int8_t last[kLanes];
  store_integers(last, integers);
  for (int64_t k = 0; k < padded; ++k) to[k] = last[k];
}

LOCKSTEP_LANES_INLINE int64_t padded_to_step(int64_t count) {
  return (count + kColumnsOfStep - 1) / kColumnsOfStep * kColumnsOfStep;
}

/// Equal to `to_int8` of runtime/core/int8_groups.h.
static Int8Group quantise_values(const float* values, int64_t count, int8_t* integers) {
  const int64_t padded = padded_to_step(count);
  const float largest = largest_magnitude(values, count);
  if (!(largest >= 0x1p-100f)) {
    for (int64_t i = 0; i < padded; ++i) integers[i] = 0;
    return {largest - largest, 0};
  }
  const Lanes inverse = splat(127.0f / largest);
  Lanes sum = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i;
    const Lanes x = n >= kLanes ? load(values + i) : load(values + i, static_cast<int>(n));
    const Lanes rounded = round_to_integer(x * inverse);
    sum = sum + rounded;
    store_some(integers + i, rounded, n, padded - i);
  }
  return {largest / 127.0f, static_cast<int32_t>(sum_of(sum))};
}

/// The nearest integers to x / kDigitBase. What remains of x is from −127 to 127: near a half, a quotient has an error
/// below 2^-8, and the next remainder is as far away.
LOCKSTEP_LANES_INLINE Lanes higher_digits(Lanes x) { return round_to_integer(x * splat(1.0f / kDigitBase)); }

/// See CodedKernels::to_digits. After the first rounding all sums and differences of floats are exact.
static DigitGroup values_to_digits(const float* values, int64_t count, float largest, int8_t* integers,
                                   int64_t stride) {
  const int64_t padded = padded_to_step(count);
  if (!(largest >= 0x1p-100f)) {
    for (int digit = 0; digit < 3; ++digit) {
      for (int64_t i = 0; i < padded; ++i) integers[digit * stride + i] = 0;
    }
    return {.scale = largest - largest};
  }
  uint32_t bits = 0;
  __builtin_memcpy(&bits, &largest, sizeof bits);
  const uint32_t exponent = bits >> 23;  // of 2^(exponent − 127), the power of two in `largest`
  const uint32_t scale_bits = (exponent - 21) << 23, inverse_bits = (275 - exponent) << 23;
  DigitGroup made;
  float inverse = 0.0f;
  __builtin_memcpy(&made.scale, &scale_bits, sizeof scale_bits);
  __builtin_memcpy(&inverse, &inverse_bits, sizeof inverse_bits);
  Lanes sums[3] = {zero(), zero(), zero()};
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i;
    const Lanes x = n >= kLanes ? load(values + i) : load(values + i, static_cast<int>(n));
    const Lanes whole = round_to_integer(x * splat(inverse));
    const Lanes upper = higher_digits(whole), first = higher_digits(upper);
    const Lanes digits[3] = {first, upper - first * splat(kDigitBase), whole - upper * splat(kDigitBase)};
    for (int digit = 0; digit < 3; ++digit) {
      sums[digit] = sums[digit] + digits[digit];
      store_some(integers + digit * stride + i, digits[digit], n, padded - i);
    }
  }
  for (int digit = 0; digit < 3; ++digit) made.sums[digit] = static_cast<int32_t>(sum_of(sums[digit]));
  return made;
}

/// Lines of codes as unsigned bytes, four columns a step; e2m1 in halves, 12 being zero.
template <CodeKind kKind, int kBits>
struct ByteCode {
  static constexpr int kSteps = 8 / kBits;

  [[gnu::always_inline]] void steps(const std::byte* line, Words (&to)[kSteps]) const {
    const Words words = load_words(line);
    if constexpr (kBits == 8) {
      to[0] = words;
    } else {
      to[0] = in_bytes(words & 0x0f0f0f0fu);
      to[1] = in_bytes((words >> 4) & 0x0f0f0f0fu);
    }
  }
  [[gnu::always_inline]] static Words in_bytes(Words codes) {
    if constexpr (kKind == CodeKind::kE2M1) return halves_of_e2m1(codes);
    return codes;
  }
};

/// The arithmetic of product_coded.h.
struct Dots {
  using Sum = Integers;
  using X = Bytes4;
  LOCKSTEP_LANES_INLINE Step step_of(Words a) { return LOCKSTEP_CPU_ISA::step_of(a); }
  LOCKSTEP_LANES_INLINE X broadcast(const std::byte* x) {
    int32_t four;
    __builtin_memcpy(&four, x, sizeof four);
    return broadcast_step(four);
  }
  LOCKSTEP_LANES_INLINE Sum add(Sum sum, Step w, X x) { return dot(sum, w, x); }

  /// What all groups of a product have in common.
  struct Rule {
    int32_t opening;  // times Σ of the integers of x
    float unit;       // of an integer of w

    [[gnu::always_inline]] Rule(const WeightFormat& format, DotKind dots)
        : opening(kWeightZero - centre_of(format, dots)), unit(format.kind == CodeKind::kE2M1 ? 0.5f : 1.0f) {}
  };
  LOCKSTEP_LANES_INLINE Sum open(const Rule& rule, const ArrangedRows& x, int row, int64_t group) {
    return splat_integer(rule.opening * x.of_row(x.sums, row, group));
  }
  LOCKSTEP_LANES_INLINE Lanes scale_of(const Rule& rule, Lanes scale) { return scale * splat(rule.unit); }
  /// Zeros as `end` reads them.
  LOCKSTEP_LANES_INLINE Words zeros_of(const WeightFormat& format, DotKind dots, Words zeros) {
    const Words relative = splat_word(static_cast<uint32_t>(centre_of(format, dots))) - zeros;
    return dots == DotKind::kDigits ? as_words(to_floats(integers_of(relative))) : relative;
  }
  /// Adds a group's sums, of the D rows of integers from `row` on, to y.
  template <GroupOffset kOffset, int D>
  LOCKSTEP_LANES_INLINE Lanes end(const ArrangedRows& x, int row, int64_t group, const Sum* sum, Lanes scale,
                                  Words offset, Lanes y) {
    const Lanes x_scale = splat(x.of_row(x.scales, row, group));
    if constexpr (D == 1) {
      const int32_t of_x = kOffset == GroupOffset::kNone ? 0 : x.of_row(x.sums, row, group);
      Integers total = *sum;
      if constexpr (kOffset == GroupOffset::kZeros) total = total + integers_of(offset) * splat_integer(of_x);
      y = fma(to_floats(total) * scale, x_scale, y);
      if constexpr (kOffset == GroupOffset::kMinima) {
        y = fma(splat(static_cast<float>(of_x)) * as_floats(offset), x_scale, y);
      }
      return y;
    } else {
      const Lanes of_x = splat(kOffset == GroupOffset::kNone ? 0.0f : x.of_row(x.scales, row + 1, group));
      Lanes total = fma(to_floats(sum[1]), splat(kDigitBase), to_floats(sum[2]));
      total = fma(to_floats(sum[0]), splat(kDigitBase * kDigitBase), total);
      if constexpr (kOffset == GroupOffset::kZeros) total = fma(of_x, as_floats(offset), total);
      y = fma(total * scale, x_scale, y);
      if constexpr (kOffset == GroupOffset::kMinima) y = fma(of_x * as_floats(offset), x_scale, y);
      return y;
    }
  }

  /// Calls work(code) with the code of `format`, whose kind is known when this is compiled.
  template <typename Work>
  LOCKSTEP_LANES_INLINE void with_code(const WeightFormat& format, Work work) {
    if (format.bits == 8) {
      work(ByteCode<CodeKind::kInteger, 8>{});
    } else if (format.kind == CodeKind::kInteger) {
      work(ByteCode<CodeKind::kInteger, 4>{});
    } else {
      work(ByteCode<CodeKind::kE2M1, 4>{});
    }
  }
  template <typename Work>
  LOCKSTEP_LANES_INLINE void with_offset(GroupOffset offset, Work work) {
    if (offset == GroupOffset::kNone) return work(OffsetTag<GroupOffset::kNone>{});
    if (offset == GroupOffset::kZeros) return work(OffsetTag<GroupOffset::kZeros>{});
    work(OffsetTag<GroupOffset::kMinima>{});
  }
  static constexpr bool kHasDigits = true;
  static constexpr Int8Group (*quantise)(const float*, int64_t, int8_t*) = quantise_values;
  static constexpr float (*magnitude)(const float*, int64_t) = largest_magnitude;
  static constexpr DigitGroup (*to_digits)(const float*, int64_t, float, int8_t*, int64_t) = values_to_digits;
};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
