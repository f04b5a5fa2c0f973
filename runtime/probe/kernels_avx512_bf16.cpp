#include <immintrin.h>

#include <bit>

#include "runtime/probe/kernels.h"

namespace lockstep::probe {
namespace {

/// The upper half of a float in every lane: exact, because the values have few bits.
__m512bh broadcast(float value) {
  const auto bits = static_cast<int16_t>(std::bit_cast<uint32_t>(value) >> 16);
  return std::bit_cast<__m512bh>(_mm512_set1_epi16(bits));
}

/// Each lane adds the products of two pairs: two multiply-adds.
template <int Accumulators>
double pair_dots(int64_t rounds, float a, float b) {
  __m512 sums[Accumulators] = {};
  // Hides equal values from the compiler, which would compute them once.
#pragma GCC unroll 24
  for (int i = 0; i < Accumulators; ++i) asm volatile("" : "+v"(sums[i]));
  const __m512bh left = broadcast(a), right = broadcast(b);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < Accumulators; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], left, right);
  }
  double total = 0;
  for (const __m512& part : sums) {
    for (int lane = 0; lane < 16; ++lane) total += static_cast<double>(part[lane]);
  }
  return total;
}

}  // namespace

std::span<const DotKernel> avx512_bf16_dot_kernels() {
  static constexpr DotKernel kKernels[] = {
      {"512-bit dots of bfloat16 pairs, 8 sums", Precision::kBFloat16, 4 * 16 * 8, pair_dots<8>},
      {"512-bit dots of bfloat16 pairs, 12 sums", Precision::kBFloat16, 4 * 16 * 12, pair_dots<12>},
      {"512-bit dots of bfloat16 pairs, 24 sums", Precision::kBFloat16, 4 * 16 * 24, pair_dots<24>}};
  return kKernels;
}

}  // namespace lockstep::probe
