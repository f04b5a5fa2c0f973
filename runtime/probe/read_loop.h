// The loop of all read kernels. The anonymous namespace gives each including file its own copy, because each is
// compiled for another instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::probe {
namespace {

/// `Vector` holds 64-bit words. `Streams` parts of the data are read in parallel, `Unroll` vectors of each in turn;
/// `Ahead` bytes are prefetched, if not 0.
template <typename Vector, int Unroll, int Streams, int Ahead>
uint64_t read_words(const std::byte* data, size_t bytes) {
  Vector sums[Unroll] = {};
  const size_t stream_bytes = bytes / Streams;
  for (size_t at = 0; at < stream_bytes; at += Unroll * sizeof(Vector)) {
#pragma GCC unroll 8
    for (int stream = 0; stream < Streams; ++stream) {
      const std::byte* from = data + static_cast<size_t>(stream) * stream_bytes + at;
#pragma GCC unroll 16
      for (int i = 0; i < Unroll; ++i) {
        if constexpr (Ahead > 0) {
          if (i * sizeof(Vector) % 64 == 0) __builtin_prefetch(from + i * sizeof(Vector) + Ahead);
        }
        sums[i] ^= *reinterpret_cast<const Vector*>(from + i * sizeof(Vector));
      }
    }
  }
  uint64_t sum = 0;
  for (const Vector& part : sums) {
    for (size_t word = 0; word < sizeof(Vector) / 8; ++word) sum ^= part[word];
  }
  return sum;
}

}  // namespace
}  // namespace lockstep::probe
