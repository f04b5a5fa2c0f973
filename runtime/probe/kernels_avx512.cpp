#include <immintrin.h>

#include "runtime/probe/kernels.h"
#include "runtime/probe/read_loop.h"

namespace lockstep::probe {
namespace {

typedef uint64_t Words __attribute__((vector_size(64), may_alias));

template <int Accumulators>
double multiply_add(int64_t rounds, float a, float b) {
  __m512 sums[Accumulators] = {};
  // Hides equal values from the compiler, which would compute them once.
#pragma GCC unroll 24
  for (int i = 0; i < Accumulators; ++i) asm volatile("" : "+v"(sums[i]));
  const __m512 left = _mm512_set1_ps(a), right = _mm512_set1_ps(b);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < Accumulators; ++i) sums[i] = _mm512_fmadd_ps(left, right, sums[i]);
  }
  double total = 0;
  for (const __m512& part : sums) {
    for (int lane = 0; lane < 16; ++lane) total += static_cast<double>(part[lane]);
  }
  return total;
}

}  // namespace

std::span<const ReadKernel> avx512_read_kernels() {
  static constexpr ReadKernel kKernels[] = {
      {"512-bit", read_words<Words, 8, 1, 0>},
      {"512-bit, 16 at a time", read_words<Words, 16, 1, 0>},
      {"512-bit, prefetch 1 KiB ahead", read_words<Words, 8, 1, 1024>},
      {"512-bit, prefetch 4 KiB ahead", read_words<Words, 8, 1, 4096>},
      {"512-bit, 2 streams", read_words<Words, 8, 2, 0>},
      {"512-bit, 4 streams", read_words<Words, 4, 4, 0>},
      {"512-bit, 4 streams, prefetch 1 KiB ahead", read_words<Words, 4, 4, 1024>}};
  return kKernels;
}

std::span<const DotKernel> avx512_dot_kernels() {
  static constexpr DotKernel kKernels[] = {
      {"512-bit fused multiply-add, 8 sums", Precision::kFloat32, 2 * 16 * 8, multiply_add<8>},
      {"512-bit fused multiply-add, 12 sums", Precision::kFloat32, 2 * 16 * 12, multiply_add<12>},
      {"512-bit fused multiply-add, 24 sums", Precision::kFloat32, 2 * 16 * 24, multiply_add<24>}};
  return kKernels;
}

}  // namespace lockstep::probe
