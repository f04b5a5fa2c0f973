#include <immintrin.h>

#include "runtime/probe/byte_dots.h"
#include "runtime/probe/kernels.h"
#include "runtime/probe/read_loop.h"

namespace lockstep::probe {
namespace {

typedef uint64_t Words __attribute__((vector_size(32), may_alias));

template <int Accumulators>
double multiply_add(int64_t rounds, float a, float b) {
  __m256 sums[Accumulators] = {};
  // Hides equal values from the compiler, which would compute them once.
#pragma GCC unroll 24
  for (int i = 0; i < Accumulators; ++i) asm volatile("" : "+x"(sums[i]));
  const __m256 left = _mm256_set1_ps(a), right = _mm256_set1_ps(b);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < Accumulators; ++i) sums[i] = _mm256_fmadd_ps(left, right, sums[i]);
  }
  double total = 0;
  for (const __m256& part : sums) {
    for (int lane = 0; lane < 8; ++lane) total += static_cast<double>(part[lane]);
  }
  return total;
}

/// Adds products of bytes to 16-bit sums and those to 32-bit sums, for lack of a single instruction.
struct WidenedDots {
  typedef int32_t Vector __attribute__((vector_size(32)));
  static __m256i splat(int8_t value) { return _mm256_set1_epi8(value); }
  static Vector add(Vector sums, __m256i positive, __m256i any) {
    asm volatile("" : "+x"(positive));  // prevents computing the products once
    const __m256i pairs = _mm256_maddubs_epi16(positive, any);
    return sums + reinterpret_cast<Vector>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

}  // namespace

std::span<const ReadKernel> avx2_read_kernels() {
  static constexpr ReadKernel kKernels[] = {{"256-bit", read_words<Words, 8, 1, 0>},
                                            {"256-bit, prefetch 1 KiB ahead", read_words<Words, 8, 1, 1024>},
                                            {"256-bit, 2 streams", read_words<Words, 8, 2, 0>},
                                            {"256-bit, 4 streams", read_words<Words, 4, 4, 0>}};
  return kKernels;
}

std::span<const DotKernel> avx2_dot_kernels() {
  static constexpr DotKernel kKernels[] = {
      {"256-bit fused multiply-add, 8 sums", Precision::kFloat32, 2 * 8 * 8, multiply_add<8>},
      {"256-bit fused multiply-add, 12 sums", Precision::kFloat32, 2 * 8 * 12, multiply_add<12>}};
  return kKernels;
}

std::span<const DotKernel> avx2_byte_dot_kernels() {
  static constexpr DotKernel kKernels[] = {
      {"256-bit products of bytes, widened, 8 sums", Precision::kInt8, 8 * 8 * 8, byte_dots<WidenedDots, 8>}};
  return kKernels;
}

}  // namespace lockstep::probe
