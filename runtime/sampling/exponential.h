// e^x for softmax weights, with the same bits on every host.
//
// It uses only additions and multiplications; the expf of C libraries differs between hosts.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::sampling {

/// e^x for x ≤ 0, within 2 units in the last place; 0 below −87 and for −inf.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2; e^r by its Taylor polynomial, with a remainder below 6e-9 in that range.
inline float exp_nonpositive(float x) {
  constexpr float kSmallest = -87.0f;
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e4p-1f;  // 15 bits: exact times a small n
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  constexpr float kRoundToInteger = 0x1.8p+23f;
  if (!(x >= kSmallest)) return 0.0f;
  const float n = (x * kLog2E + kRoundToInteger) - kRoundToInteger;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 1.0f / 2;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  return sum * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

}  // namespace lockstep::sampling
