// Dot products of bytes, for the files of the instruction sets that have one. Integers stand for quarters, so that
// what a kernel is asked for comes out exactly.
#pragma once

#include <cstdint>

namespace lockstep::probe {
namespace {

constexpr float kOfOne = 4.0f;

/// `Dots` has a Vector of int32 lanes (typed so: of __m512i GCC 12 would keep copies), `splat` of a byte, and
/// `add(sums, unsigned bytes, signed bytes)`.
template <typename Dots, int Accumulators>
double byte_dots(int64_t rounds, float a, float b) {
  typename Dots::Vector sums[Accumulators] = {};
  // What looks equal to the compiler would be computed once.
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
