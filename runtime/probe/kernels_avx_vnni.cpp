#include <immintrin.h>

#include "runtime/probe/byte_dots.h"
#include "runtime/probe/kernels.h"

namespace lockstep::probe {
namespace {

struct Dots {
  typedef int32_t Vector __attribute__((vector_size(32)));
  static __m256i splat(int8_t value) { return _mm256_set1_epi8(value); }
  static Vector add(Vector sums, __m256i positive, __m256i any) {
    return reinterpret_cast<Vector>(_mm256_dpbusd_avx_epi32(reinterpret_cast<__m256i>(sums), positive, any));
  }
};

}  // namespace

std::span<const DotKernel> avx_vnni_dot_kernels() {
  static constexpr DotKernel kKernels[] = {
      {"256-bit dots of four bytes, 8 sums", Precision::kInt8, 8 * 8 * 8, byte_dots<Dots, 8>},
      {"256-bit dots of four bytes, 12 sums", Precision::kInt8, 8 * 8 * 12, byte_dots<Dots, 12>}};
  return kKernels;
}

}  // namespace lockstep::probe
