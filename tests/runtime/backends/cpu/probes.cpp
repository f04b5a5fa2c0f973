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

}  // namespace lockstep::cpu
