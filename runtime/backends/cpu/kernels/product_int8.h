// Dot products of 8-bit integers: up to 6 rows times 4 strips, for a range of K or for all leaves of a plan. Included
// by the int8_*.cpp files after lanes.h.
//
//   a step of a strip    w[0][k … k+3] w[1][k … k+3] … w[15][k … k+3]    64 bytes, unsigned: w + 128
//   times                x[k … k+3] in every lane                        signed
//   is added to          16 integer sums, which begin at −128 · Σ x
//
// The correction for the 128 is therefore one number per row and group, known when x is quantised, and weights are one
// stream. Instruction sets with only a saturating byte product multiply signed w by |x|, with the sign of x moved to w.
#pragma once

#include "runtime/backends/cpu/kernels/int8.h"
#include "runtime/backends/cpu/kernels/lanes.h"
#include "runtime/backends/cpu/kernels/row_sums.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

#if defined(__AVX512F__)

constexpr bool kHoldsSums = true;  // there are enough registers
/// Typed as the instructions' elements: with __m512i, whose elements are 64 bits, GCC 12 keeps a copy of each in
/// memory.
typedef int32_t Integers __attribute__((vector_size(64)));
LOCKSTEP_LANES_INLINE Integers splat_integer(int32_t x) { return Integers{} + x; }
LOCKSTEP_LANES_INLINE Lanes to_floats(Integers a) { return {_mm512_cvtepi32_ps(reinterpret_cast<__m512i>(a))}; }
LOCKSTEP_LANES_INLINE __m512i load_step(const std::byte* p) { return _mm512_loadu_si512(p); }

#if defined(__AVX512VNNI__)
constexpr bool kOpensAtOffset = true;
using Bytes4 = __m512i;
LOCKSTEP_LANES_INLINE Bytes4 broadcast_step(int32_t x) { return _mm512_set1_epi32(x); }
LOCKSTEP_LANES_INLINE Integers dot(Integers sum, __m512i w, Bytes4 x) {
  return reinterpret_cast<Integers>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), w, x));
}
#else
constexpr bool kOpensAtOffset = false;
struct Bytes4 {
  __m512i magnitude;
  __mmask64 is_negative;
};
LOCKSTEP_LANES_INLINE Bytes4 broadcast_step(int32_t x) {
  const __m512i v = _mm512_set1_epi32(x);
  return {_mm512_abs_epi8(v), _mm512_movepi8_mask(v)};
}
LOCKSTEP_LANES_INLINE Integers dot(Integers sum, __m512i w, Bytes4 x) {
  const __m512i value = _mm512_xor_si512(w, _mm512_set1_epi8(static_cast<char>(0x80)));
  const __m512i turned = _mm512_mask_sub_epi8(value, x.is_negative, _mm512_setzero_si512(), value);
  const __m512i pairs = _mm512_maddubs_epi16(x.magnitude, turned);
  return sum + reinterpret_cast<Integers>(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif

LOCKSTEP_LANES_INLINE void store_integers(int8_t* p, Lanes a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}

#elif defined(__AVX2__)

constexpr bool kHoldsSums = false;
typedef int32_t Half __attribute__((vector_size(32)));
struct Integers {
  Half lo, hi;
};
struct Step {
  __m256i lo, hi;
};
LOCKSTEP_LANES_INLINE Integers splat_integer(int32_t x) { return {Half{} + x, Half{} + x}; }
LOCKSTEP_LANES_INLINE Lanes to_floats(Integers a) {
  return {_mm256_cvtepi32_ps(reinterpret_cast<__m256i>(a.lo)), _mm256_cvtepi32_ps(reinterpret_cast<__m256i>(a.hi))};
}
LOCKSTEP_LANES_INLINE Step load_step(const std::byte* p) {
  const __m256i* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}

#if defined(__AVXVNNI__)
constexpr bool kOpensAtOffset = true;
struct Bytes4 {
  __m256i v;
};
LOCKSTEP_LANES_INLINE Bytes4 broadcast_step(int32_t x) { return {_mm256_set1_epi32(x)}; }
LOCKSTEP_LANES_INLINE Half dot_half(Half sum, __m256i w, Bytes4 x) {
  return reinterpret_cast<Half>(_mm256_dpbusd_avx_epi32(reinterpret_cast<__m256i>(sum), w, x.v));
}
#else
constexpr bool kOpensAtOffset = false;
struct Bytes4 {
  __m256i v, magnitude;
};
LOCKSTEP_LANES_INLINE Bytes4 broadcast_step(int32_t x) {
  const __m256i v = _mm256_set1_epi32(x);
  return {v, _mm256_abs_epi8(v)};
}
LOCKSTEP_LANES_INLINE Half dot_half(Half sum, __m256i w, Bytes4 x) {
  const __m256i value = _mm256_xor_si256(w, _mm256_set1_epi8(static_cast<char>(0x80)));
  const __m256i pairs = _mm256_maddubs_epi16(x.magnitude, _mm256_sign_epi8(value, x.v));
  return sum + reinterpret_cast<Half>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

LOCKSTEP_LANES_INLINE Integers dot(Integers sum, Step w, Bytes4 x) {
  return {dot_half(sum.lo, w.lo, x), dot_half(sum.hi, w.hi, x)};
}
LOCKSTEP_LANES_INLINE void store_integers(int8_t* p, Lanes a) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi));
  const __m256i in_order = _mm256_permute4x64_epi64(words, 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(in_order), _mm256_extracti128_si256(in_order, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

#else

constexpr bool kHoldsSums = false;
constexpr bool kOpensAtOffset = true;
struct Integers {
  typedef int32_t Vector __attribute__((vector_size(64)));
  Vector v;
};
struct Bytes4 {
  int16_t v[kInt8Columns];
};
LOCKSTEP_LANES_INLINE Integers splat_integer(int32_t x) { return {Integers::Vector{} + x}; }
LOCKSTEP_LANES_INLINE Lanes to_floats(Integers a) { return {__builtin_convertvector(a.v, Lanes::Vector)}; }
LOCKSTEP_LANES_INLINE Integers load_step(const std::byte* p) {
  Integers a;
  __builtin_memcpy(&a.v, p, sizeof a.v);
  return a;
}
LOCKSTEP_LANES_INLINE Bytes4 broadcast_step(int32_t x) {
  int8_t bytes[kInt8Columns];
  __builtin_memcpy(bytes, &x, sizeof bytes);
  return {{bytes[0], bytes[1], bytes[2], bytes[3]}};
}
/// Lane i of w holds its four columns starting at the least significant byte (little-endian).
LOCKSTEP_LANES_INLINE Integers dot(Integers sum, Integers w, Bytes4 x) {
  Integers::Vector total = sum.v;
  for (int k = 0; k < kInt8Columns; ++k) total += ((w.v >> (8 * k)) & 0xff) * int32_t{x.v[k]};
  return {total};
}
LOCKSTEP_LANES_INLINE void store_integers(int8_t* p, Lanes a) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}

#endif

/// Field `first` of an arranged row of x, `row` rows later.
template <typename T>
LOCKSTEP_LANES_INLINE const T* of_row(const T* first, int row, int64_t stride) {
  return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(first) + row * stride);
}

/// The prefetch distance for one or two rows, on machines with AMX. The prefetchers of other machines follow the stream
/// better on their own (docs/performance.md).
#if defined(__AMX_INT8__)
constexpr int kAskingRows = 2;
#else
constexpr int kAskingRows = 0;
#endif
constexpr int64_t kAheadBytes = 1024;

/// With more than two rows, sums are kept in memory between groups, because the integers need the registers.
template <int R, int V>
using Int8Sums = RowSums<R, V, kHoldsSums && R <= 2 ? V : 0>;

/// Adds one group of `steps` with weights at `w` to the sums.
template <int R, int V>
LOCKSTEP_LANES_INLINE void add_group(const Int8Operands& p, const std::byte* w, const std::byte* x, int64_t steps,
                                     int64_t group, Int8Sums<R, V>& sums, float* top) {
  const int64_t x_stride = p.x_stride, step_stride = p.step_stride;
  Integers dots[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    const int32_t offset = kOpensAtOffset ? of_row(p.x_offsets, r, x_stride)[group] : 0;
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) dots[r][v] = splat_integer(offset);
  }
  for (int64_t step = 0; step < steps; ++step) {
    decltype(load_step(w)) weights[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) weights[v] = load_step(w + v * kInt8StripStep);
    if constexpr (R <= kAskingRows) {
      for (int v = 0; v < V; ++v) __builtin_prefetch(w + kAheadBytes + v * kInt8StripStep);
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      int32_t four;
      __builtin_memcpy(&four, x + r * x_stride, sizeof four);
      const Bytes4 broadcast = broadcast_step(four);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) dots[r][v] = dot(dots[r][v], weights[v], broadcast);
    }
    w += step_stride;
    x += kInt8Columns;
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Lanes w_scale = load(reinterpret_cast<const float*>(w + v * kInt8StripStep));
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Lanes x_scale = splat(of_row(p.x_scales, r, x_stride)[group]);
      sums.set(r, v, top, fma(to_floats(dots[r][v]) * w_scale, x_scale, sums.get(r, v, top)));
    }
  }
  // Keeps the compiler from holding stored values in registers that the next group's integers need.
  if constexpr (Int8Sums<R, V>::kIsPartlyStored) asm volatile("" ::: "memory");
}

template <int R, int V>
LOCKSTEP_LANES_INLINE void add_groups(const Int8Operands& p, int64_t groups, int64_t last_steps, Int8Sums<R, V>& sums,
                                      float* top) {
  const std::byte* w = p.weights;
  const std::byte* x = p.x;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t steps = group + 1 < groups ? p.group_steps : last_steps;
    add_group<R, V>(p, w, x, steps, group, sums, top);
    w += (steps + 1) * p.step_stride;
    x += steps * kInt8Columns;
  }
}

template <int R, int V>
static void int8_tile(const Int8Product& p) {
  Int8Sums<R, V> sums;
  if (p.opens) {
    sums.open(p.sums);
  } else {
    sums.resume(p.sums);
  }
  add_groups<R, V>(p.operands, p.groups, p.last_steps, sums, p.sums);
  sums.close(p.sums);
}

template <int R, int V>
static void int8_tile(const Int8FewRows& p) {
  Int8Sums<R, V> sums;
  Int8Operands of_panel = p.operands;
  for (int64_t panel = 0; panel < p.panels; ++panel, of_panel.weights += p.panel_stride) {
    for (const Int8Segment* leaf = p.begin; leaf != p.end; ++leaf) {
      float* const top = p.stack + leaf->level * kFewRowsFloats;
      sums.open(top);
      add_groups<R, V>(of_panel.from(*leaf), leaf->groups, leaf->last_steps, sums, top);
      sums.end_leaf(p, panel, leaf->merges, leaf->root, top);
    }
  }
}

template <int R, typename Call>
static void int8_strips(const Call& p) {
  switch (p.operands.strips) {
    case 1: return int8_tile<R, 1>(p);
    case 2: return int8_tile<R, 2>(p);
    case 3: return int8_tile<R, 3>(p);
    default: return int8_tile<R, 4>(p);
  }
}

#if defined(__AVX512F__)

template <typename Call>
static void int8_rows(const Call& p) {
  switch (p.operands.rows) {
    case 1: return int8_strips<1>(p);
    case 2: return int8_strips<2>(p);
    case 3: return int8_strips<3>(p);
    case 4: return int8_strips<4>(p);
    case 5: return int8_strips<5>(p);
    default: return int8_strips<6>(p);
  }
}

static void int8_few_rows(const Int8FewRows& p) { int8_rows(p); }

#else

// The distance from a strip's steps to its scales is that of a whole panel, so a strip is a panel with a later start.
static Int8Product strip_of(Int8Product p, int strip) {
  p.operands.weights += strip * kInt8StripStep;
  p.sums += strip * kLanes;
  return p;
}
static Int8FewRows strip_of(Int8FewRows p, int strip) {
  p.operands.weights += strip * kInt8StripStep;
  p.stack += strip * kLanes;
  p.result = result_from(p.result, strip * kLanes);
  return p;
}

/// With 16 half-width registers, one row takes all strips, and several rows take one strip at a time.
template <typename Call>
static void int8_rows(const Call& p) {
  if (p.operands.rows == 1) return int8_strips<1>(p);
  for (int strip = 0; strip < p.operands.strips; ++strip) {
    const Call part = strip_of(p, strip);
    switch (p.operands.rows) {
      case 2: int8_tile<2, 1>(part); break;
      case 3: int8_tile<3, 1>(part); break;
      case 4: int8_tile<4, 1>(part); break;
      case 5: int8_tile<5, 1>(part); break;
      default: int8_tile<6, 1>(part); break;
    }
  }
}

static void int8_few_rows(const Int8FewRows& p) {
  Int8FewRows of_panel = p;
  of_panel.panels = 1;
  for (int64_t panel = 0; panel < p.panels; ++panel) {
    of_panel.result = result_from(p.result, panel * kPanel);
    int8_rows(of_panel);
    of_panel.operands.weights += p.panel_stride;
  }
}

#endif

static void int8_product(const Int8Product& p) { int8_rows(p); }

/// Equal to `to_int8` of runtime/core/int8_groups.h.
static Int8Group quantise(const float* values, int64_t count, int8_t* integers) {
  const int64_t padded = (count + kInt8Columns - 1) / kInt8Columns * kInt8Columns;
  Lanes most = zero(), poison = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const Lanes x = count - i >= kLanes ? load(values + i) : load(values + i, static_cast<int>(count - i));
    most = larger(larger(x, zero() - x), most);  // ignores NaN
    poison = poison + (x - x);                   // NaN for a NaN and for an infinity
  }
  const float largest = largest_of(most);
  const float not_finite = sum_of(poison);
  if (not_finite != not_finite || largest < 0x1p-100f) {
    for (int64_t i = 0; i < padded; ++i) integers[i] = 0;
    return {not_finite, 0};
  }
  const Lanes inverse = splat(127.0f / largest);
  Lanes sum = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const int n = count - i >= kLanes ? kLanes : static_cast<int>(count - i);
    const Lanes x = n == kLanes ? load(values + i) : load(values + i, n);
    const Lanes rounded = round_to_integer(x * inverse);
    sum = sum + rounded;
    if (n == kLanes) {
      store_integers(integers + i, rounded);
    } else {
      int8_t last[kLanes];
      store_integers(last, rounded);
      for (int64_t k = i; k < padded; ++k) integers[k] = last[k - i];
    }
  }
  return {largest / 127.0f, static_cast<int32_t>(sum_of(sum))};
}

[[maybe_unused]] constexpr Int8Kernels make_int8_kernels() {
  return {.few_rows = int8_few_rows, .product = int8_product, .tiled_product = nullptr, .quantise = quantise};
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
