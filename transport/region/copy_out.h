// The copy into a rank's own buffer, which other cores are about to read and this one is not.
#pragma once

#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace lockstep::transport::region {

/// Copies to `dst`, which is aligned to 16 bytes, with stores that go past the cache. Complete before the next flag.
///
/// The lines of `dst` are still in the peers' caches from two rounds ago: ordinary stores fetch each one first, and the
/// peers then fetch it from this core. Where the way between the cores is long that is slow (8 KiB exchanged in 4.5 µs,
/// past the cache in 1.6 µs); between neighbours it is faster (1.1 µs, past the cache 1.7 µs). So it is an option, and
/// a choosing communicator can measure both.
inline void copy_past_cache(void* dst, const void* src, size_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
#if defined(__x86_64__)
  constexpr size_t kSmallest = 2048;  // below, nothing is gained
  constexpr size_t kLine = 64;
  if (bytes >= kSmallest) {
    for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
      for (size_t at = 0; at < kLine; at += sizeof(__m128i)) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
      }
    }
    _mm_sfence();  // such stores keep no order with the flag that follows
  }
#endif
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace lockstep::transport::region
