#include "tests/runtime/backends/cpu/probes.h"

#include <immintrin.h>

namespace lockstep::cpu {
namespace {

template <int kStreams>
uint64_t read_streams(const std::byte* data, int64_t bytes) {
  const int64_t part = bytes / kStreams;
  __m512i sums[4] = {};
  for (int64_t at = 0; at < part; at += 256) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const std::byte* p = data + stream * part + at;
      for (int line = 0; line < 4; ++line) {
        __builtin_prefetch(p + 64 * line + 4096);
        sums[line] = _mm512_xor_si512(sums[line], _mm512_loadu_si512(p + 64 * line));
      }
    }
  }
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(
      _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]))));
}

}  // namespace

uint64_t read_memory(const std::byte* data, int64_t bytes, int streams) {
  return streams == 1 ? read_streams<1>(data, bytes) : read_streams<4>(data, bytes);
}

float multiply_in_registers(int64_t repeats, int bits) {
  __m512 sums[kProbeChains] = {};
  __m512 a = _mm512_setzero_ps();
  // Values that the compiler cannot know: equal chains would be computed once.
  asm volatile("" : "+v"(a));
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
  for (int64_t i = 0; i < repeats; ++i) {
    if (bits == 16) {
#pragma GCC unroll 16
      for (__m512& sum : sums)
        sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(a));
    } else {
#pragma GCC unroll 16
      for (__m512& sum : sums) sum = _mm512_fmadd_ps(a, a, sum);
    }
  }
  float total = 0;
  for (__m512 sum : sums) total += _mm512_reduce_add_ps(sum);
  return total;
}

}  // namespace lockstep::cpu
