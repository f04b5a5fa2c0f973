#include "transport/region/copy_out.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::transport::region {

void copy_through_cache(void* dst, const void* src, size_t bytes) {
  if (bytes != 0 && dst != src) std::memcpy(dst, src, bytes);
}

#if defined(__x86_64__)

namespace {

constexpr size_t kSmallest = 2048;  // no gain below this size
constexpr size_t kLine = 64;

void copy_by_16(void* dst, const void* src, size_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  if (bytes >= kSmallest) {
    for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
      for (size_t at = 0; at < kLine; at += sizeof(__m128i)) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
      }
    }
    _mm_sfence();  // these stores are not ordered with the following flag
  }
  if (bytes != 0) std::memcpy(to, from, bytes);
}

/// One store per line, so a line is never written in parts.
[[gnu::target("avx512f")]] void copy_by_64(void* dst, const void* src, size_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  if (bytes >= kSmallest) {
    for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
    }
    _mm_sfence();
  }
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

CopyOut copy_past_cache() { return __builtin_cpu_supports("avx512f") ? copy_by_64 : copy_by_16; }

#else

CopyOut copy_past_cache() { return copy_through_cache; }

#endif

}  // namespace lockstep::transport::region
