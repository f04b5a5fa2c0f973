// Exponentials and what is made of them, by the formulas of the CPU backend (backends/cpu/kernels), so that their bits
// are known wherever they run. One IEEE operation each: nothing here is contracted or approximated by a library.
#pragma once

#include "runtime/backends/cuda/kernels/device.h"

namespace lockstep::cuda {

LOCKSTEP_DEVICE float infinity() { return float_of_bits(0x7f800000u); }
/// The larger one; `b` where one is a NaN.
LOCKSTEP_DEVICE float larger(float a, float b) { return a > b ? a : b; }
LOCKSTEP_DEVICE float smaller(float a, float b) { return a < b ? a : b; }

/// 2^n of a whole n from −126 to 127.
LOCKSTEP_DEVICE float power_of_two(float n) {
  return float_of_bits(static_cast<uint32_t>(static_cast<int32_t>(n == n ? n : 0.0f) + 127) << 23);
}

/// e^x with a relative error below 2e-7; 0 below −104, infinity above 89, a NaN of a NaN.
LOCKSTEP_DEVICE float exp_of(float x) {
  const float bounded = smaller(89.0f, larger(-104.0f, x));
  const float n = round_to_whole(times(bounded, 1.44269504f));
  float r = madd(n, -0.693359375f, bounded);
  r = madd(n, 2.12194440e-4f, r);
  float p = madd(1.0f / 5040.0f, r, 1.0f / 720.0f);
  p = madd(p, r, 1.0f / 120.0f);
  p = madd(p, r, 1.0f / 24.0f);
  p = madd(p, r, 1.0f / 6.0f);
  p = madd(p, r, 0.5f);
  p = madd(p, r, 1.0f);
  p = madd(p, r, 1.0f);
  const float half = round_to_whole(times(n, 0.5f));  // 2^n in two factors: n may exceed the exponent's range
  return times(times(p, power_of_two(half)), power_of_two(plus(n, -half)));
}

/// Sine and cosine of an angle of at most 2³¹, each within one unit of the last place: reduced by multiples of π/2 in
/// two parts, then Taylor's polynomials on [−π/4, π/4], in double precision.
LOCKSTEP_DEVICE void sine_and_cosine(float angle, float& sine, float& cosine) {
  const double x = static_cast<double>(angle);
  const double n = round_to_whole(times(x, 0.63661977236758134308));
  double r = madd(n, -1.57079632679489655800, x);
  r = madd(n, -6.12323399573676603587e-17, r);
  const double z = times(r, r);
  double s = madd(z, 1.60590438368216145994e-10, -2.50521083854417187751e-8);
  s = madd(z, s, 2.75573192239858906526e-6);
  s = madd(z, s, -1.98412698412698412698e-4);
  s = madd(z, s, 8.33333333333333333333e-3);
  s = madd(z, s, -1.66666666666666666667e-1);
  s = madd(times(z, s), r, r);
  double c = madd(z, -1.14707455977297247139e-11, 2.08767569878680989792e-9);
  c = madd(z, c, -2.75573192239858906526e-7);
  c = madd(z, c, 2.48015873015873015873e-5);
  c = madd(z, c, -1.38888888888888888889e-3);
  c = madd(z, c, 4.16666666666666666667e-2);
  c = madd(z, c, -0.5);
  c = madd(z, c, 1.0);
  const int64_t quarter = static_cast<int64_t>(n) & 3;
  const double first = (quarter & 1) == 0 ? s : c;
  const double second = (quarter & 1) == 0 ? c : s;
  sine = float_of_double((quarter & 2) == 0 ? first : -first);
  cosine = float_of_double(quarter == 1 || quarter == 2 ? -second : second);
}

/// tanh(x) as 1 − 2 / (e^2x + 1).
LOCKSTEP_DEVICE float tanh_of(float x) { return plus(1.0f, -divide(2.0f, plus(exp_of(times(2.0f, x)), 1.0f))); }

}  // namespace lockstep::cuda
