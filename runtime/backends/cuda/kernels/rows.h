// Element types of activations: arithmetic is in f32, and each result is rounded once.
#pragma once

#include "runtime/backends/cuda/kernels/device.h"

namespace lockstep::cuda {

struct F32Rows {
  using Element = float;
  LOCKSTEP_DEVICE static float read(float value) { return value; }
  LOCKSTEP_DEVICE static float write(float value) { return value; }
  LOCKSTEP_DEVICE static float round(float value) { return value; }
};

struct Bf16Rows {
  using Element = Bf16;
  LOCKSTEP_DEVICE static float read(Bf16 value) { return float_of(value); }
  LOCKSTEP_DEVICE static Bf16 write(float value) { return bf16_of(value); }
  LOCKSTEP_DEVICE static float round(float value) { return float_of(bf16_of(value)); }
};

}  // namespace lockstep::cuda
