#include <immintrin.h>

#include "runtime/probe/byte_dots.h"
#include "runtime/probe/kernels.h"

namespace lockstep::probe {
namespace {

struct Dots {
  using Vector = __m512i;
  static Vector splat(int8_t value) { return _mm512_set1_epi8(value); }
  static Vector add(Vector sums, Vector positive, Vector any) { return _mm512_dpbusd_epi32(sums, positive, any); }
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
