// Activations, by the formulas of the CPU backend (backends/cpu/kernels/activation.h).
#pragma once

#include "runtime/backends/cuda/kernels/functions.h"
#include "runtime/backends/cuda/kernels/parameters.h"

namespace lockstep::cuda {

/// x · Φ(x) as max(x, 0) − |x| · Φ(−|x|); the Chebyshev fit of erfc by Press et al., Numerical Recipes §6.2.
LOCKSTEP_DEVICE float gelu_of(float x) {
  const float size = smaller(20.0f, larger(-x, x));  // beyond 20, Φ(−size) is 0
  const float z = times(size, 0.707106781f);
  const float t = divide(1.0f, madd(z, 0.5f, 1.0f));
  float p = madd(t, 0.17087277f, -0.82215223f);
  p = madd(p, t, 1.48851587f);
  p = madd(p, t, -1.13520398f);
  p = madd(p, t, 0.27886807f);
  p = madd(p, t, -0.18628806f);
  p = madd(p, t, 0.09678418f);
  p = madd(p, t, 0.37409196f);
  p = madd(p, t, 1.00002368f);
  p = madd(p, t, -1.26551223f);
  const float tail = times(times(0.5f, t), exp_of(plus(p, -times(z, z))));
  return plus(larger(0.0f, x), -times(size, tail));
}

LOCKSTEP_DEVICE float activate(int32_t kind, float x) {
  if (kind == kSilu) return divide(x, plus(1.0f, exp_of(-x)));
  if (kind == kSigmoid) return divide(1.0f, plus(1.0f, exp_of(-x)));
  if (kind == kRelu) return larger(0.0f, x);
  if (kind == kSquaredRelu) return times(larger(0.0f, x), larger(0.0f, x));
  if (kind == kGelu) return gelu_of(x);
  // x/2 · (1 + tanh(u)) with u = √(2/π) · (x + 0.044715 x³), written as x / (1 + e^−2u).
  const float cubic = times(x, madd(0.044715f, times(x, x), 1.0f));
  return divide(x, plus(1.0f, exp_of(times(-1.59576912f, cubic))));
}

/// gpt-oss: (up + 1) · gate · sigmoid(alpha · gate), both bounded.
LOCKSTEP_DEVICE float clamped_swiglu(float gate, float up, float limit, float alpha) {
  const float g = smaller(limit, gate);
  const float u = smaller(limit, larger(-limit, up));
  return divide(times(plus(u, 1.0f), g), plus(1.0f, exp_of(-times(alpha, g))));
}

}  // namespace lockstep::cuda
