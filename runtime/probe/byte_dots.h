// Dot products of bytes, for instruction sets with such an instruction. Integers represent quarters, so the results are
// exact.
#pragma once

#include <cstdint>

namespace lockstep::probe {
namespace {

constexpr float kOfOne = 4.0f;

/// `Dots` has a Vector of int32 lanes (with __m512i, GCC 12 would keep copies), `splat` of a byte, and
/// `add(sums, unsigned bytes, signed bytes)`.
template <typename Dots, int Accumulators>
double byte_dots(int64_t rounds, float a, float b) {
  typename Dots::Vector sums[Accumulators] = {};
  // Hides equal values from the compiler, which would compute them once.
#pragma GCC unroll 24
  for (int i = 0; i < Accumulators; ++i) asm volatile("" : "+v"(sums[i]));
  const auto positive = Dots::splat(static_cast<int8_t>(b * kOfOne));
  const auto any = Dots::splat(static_cast<int8_t>(a * kOfOne));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < Accumulators; ++i) sums[i] = Dots::add(sums[i], positive, any);
  }
  double total = 0;
  for (const auto& part : sums) {
    int32_t lanes[sizeof part / sizeof(int32_t)];
    __builtin_memcpy(lanes, &part, sizeof part);
    for (const int32_t lane : lanes) total += lane;
  }
  return total / (kOfOne * kOfOne);
}

}  // namespace
}  // namespace lockstep::probe
