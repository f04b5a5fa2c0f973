// Kernels for every machine: 128-bit vectors in the compiler's portable form.
#include "runtime/probe/kernels.h"
#include "runtime/probe/read_loop.h"

namespace lockstep::probe {
namespace {

typedef uint64_t Words __attribute__((vector_size(16), may_alias));
typedef float Floats __attribute__((vector_size(16)));

/// A separate multiplication and addition count as two operations.
template <int Accumulators>
double multiply_add(int64_t rounds, float a, float b) {
  Floats sums[Accumulators] = {};
  // Hides equal values from the compiler, which would compute them once.
#pragma GCC unroll 24
  for (int i = 0; i < Accumulators; ++i) asm volatile("" : "+x"(sums[i]));
  Floats left = {a, a, a, a};
  const Floats right = {b, b, b, b};
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+x"(left));  // prevents computing the product once
#pragma GCC unroll 16
    for (int i = 0; i < Accumulators; ++i) {
      Floats product = left;
      asm volatile("" : "+x"(product));
      sums[i] += product * right;
    }
  }
  double total = 0;
  for (const Floats& part : sums) {
    for (int lane = 0; lane < 4; ++lane) total += static_cast<double>(part[lane]);
  }
  return total;
}

}  // namespace

std::span<const ReadKernel> portable_read_kernels() {
  static constexpr ReadKernel kKernels[] = {{"128-bit", read_words<Words, 8, 1, 0>},
                                            {"128-bit, prefetch 1 KiB ahead", read_words<Words, 8, 1, 1024>},
                                            {"128-bit, 2 streams", read_words<Words, 4, 2, 0>},
                                            {"128-bit, 4 streams", read_words<Words, 4, 4, 0>}};
  return kKernels;
}

std::span<const DotKernel> portable_dot_kernels() {
  static constexpr DotKernel kKernels[] = {
      {"128-bit multiply and add, 6 sums", Precision::kFloat32, 2 * 4 * 6, multiply_add<6>},
      {"128-bit multiply and add, 8 sums", Precision::kFloat32, 2 * 4 * 8, multiply_add<8>}};
  return kKernels;
}

}  // namespace lockstep::probe
