#include <immintrin.h>

#include "runtime/probe/byte_dots.h"
#include "runtime/probe/kernels.h"

namespace lockstep::probe {
namespace {

struct Dots {
  typedef int32_t Vector __attribute__((vector_size(64)));
  static __m512i splat(int8_t value) { return _mm512_set1_epi8(value); }
  static Vector add(Vector sums, __m512i positive, __m512i any) {
    return reinterpret_cast<Vector>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums), positive, any));
  }
};

}  // namespace

std::span<const DotKernel> avx512_vnni_dot_kernels() {
  static constexpr DotKernel kKernels[] = {
      {"512-bit dots of four bytes, 8 sums", Precision::kInt8, 8 * 16 * 8, byte_dots<Dots, 8>},
      {"512-bit dots of four bytes, 12 sums", Precision::kInt8, 8 * 16 * 12, byte_dots<Dots, 12>},
      {"512-bit dots of four bytes, 24 sums", Precision::kInt8, 8 * 16 * 24, byte_dots<Dots, 24>}};
  return kKernels;
}

}  // namespace lockstep::probe
